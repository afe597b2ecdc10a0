"""The agents, one algorithm a file."""
