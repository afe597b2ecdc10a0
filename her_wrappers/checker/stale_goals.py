"""Detection of achieved goals that belong to an earlier state than the rest of the observation.

A linear or quadratic function from observation to achieved goal is fitted to recorded steps. Goals are stale
if the function is wrong for most resets, or if goals after a step fit the observation before the step. For
example, the goal of a reset is old if it is computed before the simulator has computed the new positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from her_wrappers.checker.goal_calls import flat
from her_wrappers.checker.records import Rollout, spread
from her_wrappers.rules import Violation

MAX_STATES = 1000
"""Largest number of states to which a function is fitted."""

MAX_SIZE, MAX_SQUARED_SIZE = 64, 12
"""Largest number of values of an observation for fitting a linear, and a quadratic, function."""

FITS, STALE, EXACT = 0.2, 0.05, 1e-3
"""Largest error of a function that fits, smallest error of a stale goal, and largest error of an exact
function, as shares of the spread of goals. Goals that are not stale can have small errors, since MuJoCo's
positions are one substep older than the joints after mj_step."""


def stale_goal(rollout: Rollout) -> Violation | None:
    """Return a violation if achieved goals belong to earlier states than the rest of the observations."""
    steps, resets = spread(rollout.steps, MAX_STATES), rollout.resets[:MAX_STATES]
    observations = [
        [step.before for step in steps],
        [step.observation for step in steps],
        [reset.observation for reset in resets],
    ]
    try:
        before, states, starts = _stacked("observation", observations)
        _, goals, first_goals = _stacked("achieved_goal", observations)
    except (IndexError, KeyError, TypeError, ValueError):
        return None  # other rules report observations that are not arrays of one shape
    size, scale = states.shape[1], goals.std(axis=0).max(initial=0)
    is_finite = all(np.isfinite(values).all() for values in (goals, before, states, starts, first_goals))
    if not 0 < size <= MAX_SIZE or not is_finite or scale == 0:
        return None
    fits = [
        (_fit(make(states), goals), make)
        for make in ((_linear, _quadratic) if size <= MAX_SQUARED_SIZE else (_linear,))
    ]
    (error, weights), make_features = min(fits, key=lambda fit: fit[0][0])
    if weights is not None and error < FITS * scale:
        known = ((starts >= states.min(axis=0)) & (starts <= states.max(axis=0))).all(axis=1)
        known &= _is_in_span(make_features(starts), make_features(states))
        errors = np.abs(make_features(starts) @ weights - first_goals).max(axis=1)
        stale = errors[known] > max(3 * error, STALE * scale)  # a stale goal may fit by chance
        if len(stale) >= 3 and stale.mean() > 0.8:
            message = f"the achieved goal follows from the observation in all steps, but not in {stale.sum()}"
            first = resets[int(np.flatnonzero(known)[0])]
            return Violation(f"{message} of {len(known)} resets", first.place)
    if error > STALE * scale and min(_fit(make(before), goals)[0] for _, make in fits) < EXACT * scale:
        message = "the achieved goal follows from the observation before the step, not from the one after it"
        return Violation(message, steps[0].place)
    return None


def _stacked(key: str, observations: list[list[Any]]) -> list[np.ndarray]:
    return [np.stack([flat(observation[key]) for observation in group]) for group in observations]


def _linear(states: np.ndarray) -> np.ndarray:
    return np.concatenate([states, np.ones((len(states), 1))], axis=1)


def _quadratic(states: np.ndarray) -> np.ndarray:
    rows, columns = np.triu_indices(states.shape[1] + 1)
    features = _linear(states)
    return np.asarray(features[:, rows] * features[:, columns])


def _fit(features: np.ndarray, goals: np.ndarray) -> tuple[float, Any]:
    """Fit linear weights to every second row; return the largest error in the other rows, and the weights."""
    if len(features) < 4 * features.shape[1]:
        return np.inf, None
    weights = np.linalg.lstsq(features[::2], goals[::2], rcond=None)[0]
    return float(np.abs(features[1::2] @ weights - goals[1::2]).max()), weights


def _is_in_span(features: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return for each row of ``features`` whether it is a linear combination of the rows of ``known``."""
    _, scale, directions = np.linalg.svd(known, full_matrices=False)
    span = directions[scale > 1e-6 * scale[0]]
    outside = np.linalg.norm(features - features @ span.T @ span, axis=1)
    return np.asarray(outside < EXACT * np.linalg.norm(features, axis=1))
