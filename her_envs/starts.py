"""Starts of episodes: sampled states that are not at their goal, or states set by options of ``reset``."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space

from her_envs.arrays import as_numpy
from her_envs.task import Array, GoalTask, State

MAX_REDRAWS = 1000  # number of attempts to sample starts that are not solved yet, before an error is raised


def copy_options(options: Any) -> dict[str, Any]:
    """Return a copy of the reset options, or ``{}`` for None; raise TypeError if they are not a dict."""
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"reset options must be a dict, got {options!r}")
    return dict(options or {})


def sample_starts(
    task: GoalTask,
    num_envs: int,
    rng: np.random.Generator,
    options: dict[str, Any],
    rows: np.ndarray | None = None,
) -> tuple[State, dict[str, Array]]:
    """Sample start states for the environments ``rows`` (by default all N); return them with observations.

    The options ``"goal"`` and ``"state"`` set parts of the states. Their values have a leading axis N, or are
    used for all N environments. A start that has already reached its goal is sampled again, unless the
    options determine the whole state.

    Raises:
        TypeError: The option ``"state"`` is not a dict, but states of this task have several entries in
            addition to ``goal``.
        ValueError: The options do not fit the task, or a start is at its goal in all `MAX_REDRAWS` samples.
    """
    rows = np.arange(num_envs) if rows is None else rows
    state = task.reset(len(rows), rng)
    given = _given_entries(state, options, num_envs, rows) if options else {}
    state = state | given
    if given:
        if (error := task.start_error(state)) is not None:
            raise ValueError(error)
        for key, values in task.observe(state).items():
            if not batch_space(space := task.observation_space[key], len(rows)).contains(values):
                raise ValueError(
                    f"with the reset options {options}, {key!r} must be in {space} at the start, got {values}"
                )
    for _ in range(MAX_REDRAWS):
        observation = task.observe(state)
        solved = task.success(observation["achieved_goal"], observation["desired_goal"])
        if given.keys() == state.keys() or not solved.any():
            return state, observation
        again = np.flatnonzero(solved)
        fresh = task.reset(len(again), rng) | {name: values[again] for name, values in given.items()}
        state = replace_rows(state, again, fresh)
    raise ValueError(
        f"the goal was already reached at the start in all {MAX_REDRAWS} attempts with the reset options "
        f"{options}; pass another 'goal' or 'state', or change reset() of the task"
    )


def replace_rows(state: State, rows: np.ndarray, new: State) -> State:
    """Return a copy of ``state`` whose rows with indices ``rows`` are replaced by the rows of ``new``."""
    replaced = {}
    for name, values in state.items():
        replaced[name] = values.copy()
        replaced[name][rows] = new[name]
    return replaced


def _given_entries(state: State, options: dict[str, Any], num_envs: int, rows: np.ndarray) -> State:
    """Return the entries of a start state that the reset options ``"goal"`` and ``"state"`` set."""
    if unknown := options.keys() - {"goal", "state"}:
        raise ValueError(f"unknown reset option {min(map(repr, unknown))}; choose from 'goal', 'state'")
    names, given = [name for name in state if name != "goal"], options.get("state", {})
    if not isinstance(given, dict):
        if len(names) > 1:
            raise TypeError(f"reset option 'state' must be a dict with keys from {names}, got {given!r}")
        given = {names[0]: given}
    if unknown := given.keys() - set(names):
        raise ValueError(
            f"unknown entry {min(map(repr, unknown))} of reset option 'state'; choose from {names}"
        )
    entries = given | ({"goal": options["goal"]} if "goal" in options else {})
    return {name: _as_rows(name, value, state[name], num_envs, rows) for name, value in entries.items()}


def _as_rows(name: str, value: Any, like: np.ndarray, num_envs: int, rows: np.ndarray) -> np.ndarray:
    """Convert a value of the reset options to an array with one row for each environment in ``rows``."""
    label = "reset option 'goal'" if name == "goal" else f"entry {name!r} of reset option 'state'"
    shape = like.shape[1:]
    try:
        array = np.asarray(as_numpy(value))
        if array.dtype.kind not in "biuf":
            raise TypeError  # noqa: TRY301 - as errors of the conversion
        with np.errstate(invalid="ignore"):  # a cast of infinity to integers raises below
            cast: np.ndarray = array.astype(like.dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{label} must be an array of numbers, got {value!r}") from error
    if array.shape not in {shape, (num_envs, *shape)}:
        raise ValueError(f"{label} must have shape {shape} or {(num_envs, *shape)}, got {array.shape}")
    if like.dtype.kind in "iub" and not np.array_equal(cast, array):
        raise ValueError(f"{label} must contain values that {like.dtype} can represent, got {value!r}")
    chosen: np.ndarray = np.broadcast_to(cast, (num_envs, *shape))[rows]
    return chosen
