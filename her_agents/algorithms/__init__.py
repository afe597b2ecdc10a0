"""Agents: one file for each algorithm, and the code that the algorithms share."""
