"""The checker of goal environments: it runs an environment, applies rules, and returns a report."""

from her_wrappers.checker.check import check_goal_env
from her_wrappers.checker.goal_env_checker import GoalEnvChecker
from her_wrappers.checker.rules import GOAL_ENV_RULES as GOAL_ENV_RULES

__all__ = ["GoalEnvChecker", "check_goal_env"]
