"""Wrappers that correct faults of a goal interface; findings of the checker name the wrapper to use."""

from her_wrappers.goals.repairs import (
    AsGoalEnv,
    BooleanSuccess,
    CastObservation,
    CopyObservation,
    FlattenGoalObservation,
)

__all__ = ["AsGoalEnv", "BooleanSuccess", "CastObservation", "CopyObservation", "FlattenGoalObservation"]
