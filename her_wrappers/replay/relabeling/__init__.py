"""Relabeling: what steps earn under new goals, and whether they end the episode."""
