"""Rules GE3xx: returned data and the goal of an episode stay unchanged, and goals fit the observation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np

from her_wrappers.checker.comparing import (
    arrays_in,
    close,
    differences,
    identical,
    share_memory,
    show,
)
from her_wrappers.checker.goal_calls import flat, stack
from her_wrappers.checker.lab import MAX_STATES, Lab, rule
from her_wrappers.checker.records import STATE, StepRecord, spread
from her_wrappers.goals.in_observation import find_goal_in_observation
from her_wrappers.rules import Violation

JUMP = 2
"""A move of the achieved goal is a jump if it is this number of times larger than all other moves."""

MAX_RECORDS = 30
"""Number of resets and steps whose memory is compared, since sharing shows in the first steps."""

MAX_SIZE, MAX_SQUARED_SIZE = 64, 12
"""Largest number of values of an observation for fitting a linear, and a quadratic, function."""

FITS, STALE, EXACT = 0.2, 0.05, 1e-3
"""Largest error of a function that fits, smallest error of a stale goal, and largest error of an exact
function, as shares of the spread of goals. Goals that are not stale can have small errors, since MuJoCo's
positions are one substep older than the joints after mj_step."""


@rule(
    "GE301",
    fix="return copies of arrays that the environment changes later",
    repair="CopyObservation",
    passive=True,
    wrong="""
self._position += action
return {"achieved_goal": self._position, ...}""",
    right="""
self._position = self._position + action
return {"achieved_goal": self._position.copy(), ...}""",
)
def data_changes_later(lab: Lab) -> Iterator[Violation]:
    """An observation, info, reward or flag changes after it was returned, since its object is reused."""
    for record in lab.rollout.records:
        for name, live in record.live.items():
            for key, before, after in differences(getattr(record, name), live, identical):
                message = f"{show(before)} was returned, and the object later changed to {show(after)}"
                yield Violation(message, record.place, f"{name} {key}".strip())


@rule(
    "GE302",
    severity="warning",
    fix="return and store copies",
    repair="CopyObservation",
    passive=True,
    wrong="""
return {"observation": state, "achieved_goal": state[:2], "desired_goal": self.goal}""",
    right="""
return {"observation": state, "achieved_goal": state[:2].copy(), "desired_goal": self.goal.copy()}""",
)
def shared_memory(lab: Lab) -> Iterator[Violation]:
    """Writing to one array changes another, or step() changes the action.

    Observations share memory with the environment, another key, an earlier observation or the action.
    """
    records = lab.rollout.steps or lab.rollout.resets
    for key, array in arrays_in(records[-1].live["observation"]) if records else ():
        owner = next((name for name, attribute in lab.state if share_memory(array, attribute)), None)
        if owner is not None:
            yield _shares(key, f"the environment's {owner}")
    ordered = sorted(lab.rollout.records, key=lambda record: (record.episode, getattr(record, "t", -1)))
    earlier: list[tuple[str, np.ndarray]] = []
    for record in ordered[:MAX_RECORDS]:
        arrays = arrays_in(record.live["observation"])
        for (other_key, other), (key, array) in combinations(arrays, 2):
            if share_memory(array, other):
                yield _shares(key, other_key, record.place)
        for (key, array), (other_key, other) in product(arrays, earlier):
            if key == other_key and share_memory(array, other):
                yield _shares(key, "the previous observation", record.place)
        earlier = arrays
    for step in lab.steps[:MAX_RECORDS]:
        yield from _shared_action(step)


def _shared_action(step: StepRecord) -> Iterator[Violation]:
    if not identical(step.action, step.live_action):
        message = f"step() changed the action {show(step.action)} to {show(step.live_action)}"
        yield Violation(message, step.place, "action")
    if isinstance(step.live_action, np.ndarray):
        for key, array in arrays_in({name: step.live[name] for name in STATE}):
            if share_memory(array, step.live_action):
                yield _shares(key, "the action", step.place)


def _shares(name: str, other: str, place: str = "") -> Violation:
    return Violation(f"{name} shares memory with {other}", place, name.split("/", maxsplit=1)[0])


@rule(
    "GE303",
    fix="draw goals in reset() only, or end the episode in the step that changes the goal",
    needs=("goals",),
    passive=True,
    wrong="""
if reached:
    self.goal = self._draw_goal()  # in the middle of an episode""",
    right="terminated = reached  # reset() draws the next goal",
)
def goal_changes_in_episode(lab: Lab) -> Iterator[Violation]:
    """desired_goal changes between two resets, so that one episode has several goals."""

    def equal(a: Any, b: Any) -> bool:  # the same goal in another dtype may be rounded
        return identical(a, b) if a.dtype == b.dtype else close(a, b)

    goals = ((step.before["desired_goal"], step.observation["desired_goal"]) for step in lab.steps)
    is_changed = [any(differences(before, after, equal)) for before, after in goals]
    changes = [step for step, changed in zip(lab.steps, is_changed, strict=True) if changed]
    for step in changes:
        before, after = show(step.before["desired_goal"]), show(step.observation["desired_goal"])
        cause = _cause_of_change(lab.steps, is_changed) if step is changes[0] else ""
        yield Violation(f"step() changed desired_goal from {before} to {after}{cause}", step.place)


def _cause_of_change(steps: list[StepRecord], is_changed: list[bool]) -> str:
    """Return the likely cause of the first change of the desired goal, or an empty text."""
    first = is_changed.index(True)
    try:
        before, after = (
            np.stack([flat(observation["achieved_goal"]) for observation in observations])
            for observations in ([step.before for step in steps], [step.observation for step in steps])
        )
        if not (before[first].any() or flat(steps[first].before["desired_goal"]).any()):
            return "; both goals were zero before, as in the first observations of DelayObservation"
    except (TypeError, ValueError):
        return ""  # goals of different shapes
    moves = np.linalg.norm(after - before, axis=1)
    others = moves[~np.array(is_changed)]
    if others.size and moves[first] > JUMP * others.max():
        return "; the achieved goal jumps in the same step, as if step() calls reset()"
    return ""


@rule(
    "GE304",
    fix="leave the goal out of the observation: agents get desired_goal, and can compute differences from it",
    needs=("steps", "goals"),
    wrong='return {"observation": np.concatenate([position, self.goal - position]), ...}',
    right='return {"observation": position, ...}',
)
def goal_in_observation(lab: Lab) -> Iterator[Violation]:
    """The observation depends on the desired goal, so that it contradicts a relabeled goal."""
    records = lab.rollout.records
    chosen = spread(records, MAX_STATES)
    try:
        observations = stack([record.observation for record in chosen])
        found = find_goal_in_observation(observations, np.array([record.episode for record in chosen]))
    except (IndexError, TypeError, ValueError):
        return  # GE005 reports observations that are not arrays of one shape
    if found is not None:
        yield Violation(found)


@rule(
    "GE305",
    fix="compute the achieved goal after the state has changed, in reset() too: call mj_forward in MuJoCo",
    needs=("steps", "goals"),
    wrong="""
mujoco.mj_resetData(self.model, self.data)
self.data.qpos[:] = self._draw_start()
return self._observation(), {}""",
    right="""
self.data.qpos[:] = self._draw_start()
mujoco.mj_forward(self.model, self.data)
return self._observation(), {}""",
)
def stale_achieved_goal(lab: Lab) -> Iterator[Violation]:
    """The achieved goal belongs to an earlier state than the rest of the observation."""
    # Fit a function from observation to achieved goal. Goals are stale if it is wrong for most resets, since
    # the simulator had not yet computed the new positions, or if goals after a step fit the observation
    # before it.
    steps, resets = spread(lab.steps, MAX_STATES), lab.rollout.resets[:MAX_STATES]
    observations = [
        [step.before for step in steps],
        [step.observation for step in steps],
        [reset.observation for reset in resets],
    ]
    try:
        before, states, starts = _stacked("observation", observations)
        _, goals, first_goals = _stacked("achieved_goal", observations)
    except (IndexError, KeyError, TypeError, ValueError):
        return  # other rules report observations that are not arrays of one shape
    size, scale = states.shape[1], goals.std(axis=0).max(initial=0)
    is_finite = all(np.isfinite(values).all() for values in (goals, before, states, starts, first_goals))
    if not 0 < size <= MAX_SIZE or not is_finite or scale == 0:
        return
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
            yield Violation(f"{message} of {len(known)} resets", first.place)
            return
    if error > STALE * scale and min(_fit(make(before), goals)[0] for _, make in fits) < EXACT * scale:
        message = "the achieved goal follows from the observation before the step, not from the one after it"
        yield Violation(message, steps[0].place)


@rule(
    "GE307",
    severity="warning",
    fix="use a smaller timestep or smaller forces, until MuJoCo reports no bad state",
    wrong="model.opt.timestep = 0.05",
    right="model.opt.timestep = 0.002",
)
def simulation_diverges(lab: Lab) -> Iterator[Violation]:
    """MuJoCo found a bad state within a step, and set the simulation back to its initial state."""
    for place in lab.run.diverged:
        yield Violation("MuJoCo reported a bad position, velocity or acceleration", place)


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
