"""Starts of episodes: sampled states that are not solved yet, with values from the reset options."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space

from her_envs.task import Array, GoalTask, State

MAX_REDRAWS = 1000
"""Number of times that starts are sampled again while some are solved, before an error is raised."""


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
    """Sample unsolved starts of the environments ``rows`` (by default all N); return states and observations.

    The values of the options ``"goal"`` and ``"state"`` are for one environment, and are then used for all N,
    or have a leading axis N. If the options determine the whole state, it is used even if it is solved.

    Raises:
        TypeError: The option ``"state"`` is not a dict although the state has several entries.
        ValueError: The options do not fit the task, or all sampled starts are solved.
    """
    rows = np.arange(num_envs) if rows is None else rows
    state = task.reset(len(rows), rng)
    given = _given_entries(state, options, num_envs, rows) if options else {}
    state = state | given
    if given:
        if (error := task.start_error(state)) is not None:
            raise ValueError(error)
        if not batch_space(task.observation_space, len(rows)).contains(task.observe(state)):
            raise ValueError(f"reset options must give observations in the observation space, got {options}")
    for _ in range(MAX_REDRAWS):
        observation = task.observe(state)
        solved = task.success(observation["achieved_goal"], observation["desired_goal"])
        if given.keys() == state.keys() or not solved.any():
            return state, observation
        again = np.flatnonzero(solved)
        fresh = task.reset(len(again), rng) | {name: values[again] for name, values in given.items()}
        state = replace_rows(state, again, fresh)
    raise ValueError(
        f"the options of reset must allow a start that is not solved, got {options}, with which "
        f"{MAX_REDRAWS} random starts were solved; pass another goal or state"
    )


def replace_rows(state: State, rows: np.ndarray, new: State) -> State:
    """Return a copy of ``state``, in which the rows of ``new`` replace the rows with indices ``rows``."""
    replaced = {}
    for name, values in state.items():
        replaced[name] = values.copy()
        replaced[name][rows] = new[name]
    return replaced


def _given_entries(state: State, options: dict[str, Any], num_envs: int, rows: np.ndarray) -> State:
    """Return the entries of the state that ``options`` set, with the shapes and dtypes of ``state``."""
    if unknown := options.keys() - {"goal", "state"}:
        raise ValueError(f"unknown reset option {min(map(repr, unknown))}; choose from 'goal', 'state'")
    names, given = [name for name in state if name != "goal"], options.get("state", {})
    if not isinstance(given, dict):
        if len(names) > 1:
            raise TypeError(f"reset option 'state' must be a dict of {names}, got {given!r}")
        given = {names[0]: given}
    if unknown := given.keys() - set(names):
        raise ValueError(
            f"unknown entry {min(map(repr, unknown))} of reset option 'state'; choose from {names}"
        )
    entries = {name: (f"entry {name!r} of reset option 'state'", value) for name, value in given.items()}
    if "goal" in options:
        entries["goal"] = ("reset option 'goal'", options["goal"])
    return {
        name: _as_rows(label, value, state[name], num_envs, rows) for name, (label, value) in entries.items()
    }


def _as_rows(label: str, value: Any, like: np.ndarray, num_envs: int, rows: np.ndarray) -> np.ndarray:
    """Return the option ``value`` for the environments ``rows``, with the dtype of ``like``."""
    shape = like.shape[1:]
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{label} must be an array of shape {shape}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{label} must contain numbers, got {value!r}")
    if array.shape not in {shape, (num_envs, *shape)}:
        for_all = f" or {(num_envs, *shape)}" if num_envs > 1 else ""
        raise ValueError(f"{label} must have shape {shape}{for_all}, got {array.shape}")
    with np.errstate(invalid="ignore"):  # a cast of infinity to integers raises below
        cast: np.ndarray = array.astype(like.dtype)
    if like.dtype.kind in "iub" and not np.array_equal(cast, array):
        raise ValueError(f"{label} must contain {like.dtype} numbers, got {value!r}")
    chosen: np.ndarray = np.broadcast_to(cast, (num_envs, *shape))[rows]
    return chosen
