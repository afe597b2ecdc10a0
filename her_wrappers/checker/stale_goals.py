"""Detection of achieved goals that belong to an earlier state than the rest of the observation.

Where the observation determines the achieved goal exactly, by a linear or quadratic function, the function is
fitted to the recorded states. Goals that contradict it are stale, such as those of a simulator whose reset
sets the joints, but computes the positions only at the first step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from her_wrappers.checker.goal_calls import flat
from her_wrappers.checker.records import ResetRecord, Rollout, StepRecord

MAX_STATES = 1000
"""Largest number of states to which a function is fitted."""

MAX_SIZE, MAX_SQUARED_SIZE = 64, 12
"""Largest number of values of an observation for a linear, and for a quadratic function."""

EXACT, WRONG = 1e-3, 2e-2
"""Largest error of an exact function and smallest error of a stale goal, relative to the spread of goals."""


def stale_goal(rollout: Rollout) -> tuple[ResetRecord | StepRecord, str] | None:
    """Return the first record with a stale achieved goal and the violation in words, or None."""
    indices = np.unique(np.linspace(0, len(rollout.steps) - 1, MAX_STATES).astype(int))
    steps, resets = [rollout.steps[i] for i in indices], rollout.resets[:MAX_STATES]
    try:
        goals = np.stack([flat(step.observation["achieved_goal"]) for step in steps])
        before, states, starts = (
            np.stack([flat(observation["observation"]) for observation in observations])
            for observations in (
                [step.before for step in steps],
                [step.observation for step in steps],
                [reset.observation for reset in resets],
            )
        )
        first_goals = np.stack([flat(reset.observation["achieved_goal"]) for reset in resets])
    except (IndexError, KeyError, TypeError, ValueError):
        return None  # other rules report observations that are not arrays of one shape
    spread = goals.std(axis=0).max(initial=0)
    is_finite = all(np.isfinite(values).all() for values in (goals, before, states, starts, first_goals))
    if not 0 < states.shape[1] <= MAX_SIZE or not is_finite or spread == 0:
        return None
    for make_features in (_linear, _quadratic) if states.shape[1] <= MAX_SQUARED_SIZE else (_linear,):
        weights = _fit(make_features(states), goals, spread)
        if weights is not None:
            known = _is_known(make_features(starts), make_features(states))
            wrong = np.abs(make_features(starts) @ weights - first_goals).max(axis=1) > WRONG * spread
            if known.sum() >= 3 and wrong[known].all():
                message = (
                    f"the achieved goal does not fit the observation in {known.sum()} of {len(known)} resets"
                )
                return resets[int(np.flatnonzero(known)[0])], f"{message}, but in all steps"
            return None
        if _fit(make_features(before), goals, spread) is not None:
            return steps[0], "the achieved goal fits the observation before the step, not the one after it"
    return None


def _linear(states: np.ndarray) -> np.ndarray:
    return np.concatenate([states, np.ones((len(states), 1))], axis=1)


def _quadratic(states: np.ndarray) -> np.ndarray:
    rows, columns = np.triu_indices(states.shape[1] + 1)
    features = _linear(states)
    return np.asarray(features[:, rows] * features[:, columns])


def _fit(features: np.ndarray, goals: np.ndarray, spread: float) -> Any:
    """Return weights fitted to every second state, or None if they are not exact for the other states."""
    if len(features) < 4 * features.shape[1]:
        return None
    weights = np.linalg.lstsq(features[::2], goals[::2], rcond=None)[0]
    error = np.abs(features[1::2] @ weights - goals[1::2]).max()
    return weights if error < EXACT * spread else None


def _is_known(features: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return which features lie in the range and in the linear span of known ones: (N,) bool."""
    _, scale, directions = np.linalg.svd(known, full_matrices=False)
    span = directions[scale > 1e-6 * scale[0]]
    outside = np.linalg.norm(features - features @ span.T @ span, axis=1)
    in_range = ((features >= known.min(axis=0)) & (features <= known.max(axis=0))).all(axis=1)
    return np.asarray(in_range & (outside < EXACT * np.linalg.norm(features, axis=1)))
