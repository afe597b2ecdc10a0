"""Starts of episodes: drawn by the task, not solved yet, with the parts in place that reset options name."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space

from her_envs.task import Array, GoalTask, State

MAX_REDRAWS = 1000
"""A start that already is the goal is drawn again this often before we say that there is no other."""


def as_options(options: Any) -> dict[str, Any]:
    """Return a copy of reset options, empty where none are given.

    Raises:
        TypeError: They are no dict.
    """
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"reset options must be a dict, got {options!r}")
    return dict(options or {})


def draw_starts(
    task: GoalTask,
    num_envs: int,
    rng: np.random.Generator,
    options: dict[str, Any],
    rows: np.ndarray | None = None,
) -> tuple[State, dict[str, Array]]:
    """Draw starts that are not solved yet, with the parts asked for in place.

    Args:
        task: The rules.
        num_envs: Number of environments, N.
        rng: Source of all randomness.
        options: ``"goal"`` and ``"state"``; values for one environment, which all get, or for all N.
        rows: (n,) the environments that start; by default all N.

    Returns:
        A state of n rows in memory of its own, and what the task shows of it. A start that the options
        name in full is given as it is, solved or not.

    Raises:
        TypeError: A state of several parts is no dict.
        ValueError: The options do not fit the task, or leave only solved starts.
    """
    rows = np.arange(num_envs) if rows is None else rows
    state = task.reset(len(rows), rng)
    given = _given_parts(state, options, num_envs, rows) if options else {}
    state = state | given
    if given:
        _require_possible(task, state, options)
    for _ in range(MAX_REDRAWS):
        observation = task.observe(state)
        solved = task.success(observation["achieved_goal"], observation["desired_goal"])
        if given.keys() == state.keys() or not solved.any():
            return state, observation
        again = np.flatnonzero(solved)
        fresh = task.reset(len(again), rng) | {name: values[again] for name, values in given.items()}
        state = replace_rows(state, again, fresh)
    raise ValueError(
        f"every one of {MAX_REDRAWS} starts drawn was solved already; "
        f"give another goal or state than {options or 'the defaults'}"
    )


def replace_rows(state: State, rows: np.ndarray, new: State) -> State:
    """Return ``state`` with other ``rows``, in new arrays."""
    replaced = {}
    for name, values in state.items():
        replaced[name] = values.copy()
        replaced[name][rows] = new[name]
    return replaced


def _require_possible(task: GoalTask, state: State, options: dict[str, Any]) -> None:
    """Refuse a start that the options make impossible.

    Raises:
        ValueError: It lies outside the observation space, or the task refuses it.
    """
    error = task.start_error(state)
    if error is not None:
        raise ValueError(error)
    space = batch_space(task.observation_space, len(next(iter(state.values()))))
    if not space.contains(task.observe(state)):
        raise ValueError(f"reset options lie outside the observation space: got {options}")


def _given_parts(state: State, options: dict[str, Any], num_envs: int, rows: np.ndarray) -> State:
    """Return the parts of the state that the reset options name, shaped and typed as in ``state``.

    Raises:
        TypeError: The state of several parts is no dict.
        ValueError: There are no such parts, or the values do not fit.
    """
    if unknown := options.keys() - {"goal", "state"}:
        raise ValueError(f"unknown reset option {min(map(repr, unknown))}; choose from 'goal', 'state'")
    parts = {"goal": ("reset option 'goal'", options["goal"])} if "goal" in options else {}
    if "state" in options:
        parts |= _parts_of_state(options["state"], [name for name in state if name != "goal"])
    return {
        name: _as_rows(place, value, state[name], num_envs, rows) for name, (place, value) in parts.items()
    }


def _parts_of_state(given: Any, names: list[str]) -> dict[str, tuple[str, Any]]:
    """Return what the option ``state`` gives for parts of the state: where each stands, and its value.

    Raises:
        TypeError: There are several parts, and it is no dict.
        ValueError: It names a part that there is not.
    """
    place = "reset option 'state'"
    if not isinstance(given, dict):
        if len(names) > 1:
            raise TypeError(f"{place} must be a dict of {names}, got {given!r}")
        return {names[0]: (place, given)}
    if unknown := given.keys() - set(names):
        raise ValueError(f"{place} has an unknown part {min(map(repr, unknown))}; it has {names}")
    return {name: (f"part {name!r} of {place}", value) for name, value in given.items()}


def _as_rows(place: str, value: Any, like: np.ndarray, num_envs: int, rows: np.ndarray) -> np.ndarray:
    """Return ``value``, which was given at ``place``, for each of ``rows``, with the dtype of ``like``.

    Raises:
        ValueError: The shape differs, or the dtype cannot hold the value.
    """
    shape = like.shape[1:]
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{place} must be an array of shape {shape}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{place} must hold numbers, got {value!r}")
    if array.shape not in {shape, (num_envs, *shape)}:
        for_all = f" or {(num_envs, *shape)}" if num_envs > 1 else ""
        raise ValueError(f"{place} must have shape {shape}{for_all}, got {array.shape}")
    with np.errstate(invalid="ignore"):  # infinity as a whole number is refused below
        cast: np.ndarray = array.astype(like.dtype)
    if like.dtype.kind in "iub" and not np.array_equal(cast, array):
        raise ValueError(f"{place} must hold {like.dtype} numbers, got {value!r}")
    chosen: np.ndarray = np.broadcast_to(cast, (num_envs, *shape))[rows]
    return chosen
