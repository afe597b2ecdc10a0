"""Recording: turn what an environment returns into correct, complete episodes."""
