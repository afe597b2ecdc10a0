"""The rules, one file for each family; importing this package registers them all."""

from her_wrappers.conformance.rules import (
    adapter,
    goals,
    n_step,
    priorities,
    randomness,
    rewards,
    share,
    storage,
    terminations,
)

__all__ = [
    "adapter",
    "goals",
    "n_step",
    "priorities",
    "randomness",
    "rewards",
    "share",
    "storage",
    "terminations",
]
