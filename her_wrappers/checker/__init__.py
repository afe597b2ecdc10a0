"""The checker of goal environments: it collects evidence, applies rules, and returns a report."""

from her_wrappers.checker.check import check_goal_env
from her_wrappers.checker.passive import GoalEnvChecker
from her_wrappers.checker.report import Finding, GoalEnvError, NotExercised, Report

__all__ = ["Finding", "GoalEnvChecker", "GoalEnvError", "NotExercised", "Report", "check_goal_env"]
