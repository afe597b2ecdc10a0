"""Hindsight Experience Replay for any Gymnasium goal environment: check, record, relabel."""

from her_wrappers.checker import Finding, GoalEnvChecker, GoalEnvError, Report, check_goal_env

__all__ = ["Finding", "GoalEnvChecker", "GoalEnvError", "Report", "check_goal_env"]
