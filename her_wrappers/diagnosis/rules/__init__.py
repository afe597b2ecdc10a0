"""The rules of the diagnosis, one file for each family; importing this package registers them."""

from her_wrappers.diagnosis.rules import data, exploration, goals, horizon, learning, rewards

__all__ = ["data", "exploration", "goals", "horizon", "learning", "rewards"]
