"""The rules, in one file for each topic; importing this package adds them to `GOAL_ENV_RULES`."""

from her_wrappers.checker.lab import GOAL_ENV_RULES
from her_wrappers.checker.rules import (  # noqa: F401 - each module adds its rules
    batches,
    episodes,
    rewards,
    seeds,
    spaces,
    success,
    vector,
)

__all__ = ["GOAL_ENV_RULES"]
