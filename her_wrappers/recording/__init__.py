"""Recording: complete episodes from environments, and archives of episodes."""
