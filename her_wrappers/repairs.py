"""Wrappers that correct faults of a goal interface; the checker names the one that corrects a finding."""

from her_wrappers.goals.repairs import (
    AsGoalEnv,
    BooleanSuccess,
    CastObservation,
    CopyObservation,
    FlattenGoalObservation,
)

__all__ = ["AsGoalEnv", "BooleanSuccess", "CastObservation", "CopyObservation", "FlattenGoalObservation"]
