"""Columns of numbers about recorded episodes: one value for each episode or step, and ranges of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.linalg import norm

from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.data.trees import NUMBERS, Tree, leaf_arrays
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.goals.success_flag import flag_name
from her_wrappers.recording.episodes import Episodes

MAX_GOAL_SIZE, PROJECTED_SIZE = 64, 16
"""Goals with more than 64 components are multiplied by a random matrix, which leaves 16 components."""


def columns_of(
    block: Episodes, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the columns of `Facts` and `Facts.ranges` for a block; ``rng`` is for ``future_distances``."""
    achieved, desired, others = split_goals(block.observations)
    before, begins = block.state_of_step, block.ends[:-1]
    last = block.ends[1:] + np.arange(len(block))
    first = last - block.lengths
    first_of_state = first.repeat(block.lengths + 1)

    not_finite = []
    for leaves in (others.values(), (achieved, desired)):
        of_state = _not_finite(leaves, len(achieved))
        of_step = of_state[before + 1]
        of_step[begins] |= of_state[before[begins]]  # the first state of an episode belongs to its first step
        not_finite.append(of_step)
    not_finite += [
        _not_finite(leaves, len(before)) for leaves in (leaf_arrays(block.actions), [block.rewards])
    ]

    achieved, desired = projected(finite(achieved)), projected(finite(desired))
    future = (
        before + 1 + np.floor(rng.random(len(before)) * (last.repeat(block.lengths) - before)).astype(int)
    )

    changes = [(leaf != leaf[first_of_state]).reshape(len(leaf), -1).any(axis=1) for leaf in others.values()]
    is_changed = np.any([np.zeros(len(achieved), np.bool_), *changes], axis=0)
    actions = [flat(leaf) for leaf in leaf_arrays(block.actions) if leaf.dtype.kind in NUMBERS]
    first_rows = [(leaf, first, first + 1) for leaf in others.values()]
    columns = {
        "lengths": block.lengths.astype(np.int64),
        "terminated": block.terminated,
        "truncated": block.truncated,
        "desired": desired[first],
        "starts": achieved[first],
        "finals": achieved[last],
        "moves": np.maximum.reduceat(norm(achieved - achieved[first_of_state], axis=1), first),
        "is_observation_moved": np.logical_or.reduceat(is_changed, first),
        "start_distances": norm(achieved[first] - desired[first], axis=1),
        "episode_hashes": _hashes(
            first_rows + [(leaf, begins, block.ends[1:]) for leaf in leaf_arrays(block.actions)]
        ),
        "start_hashes": _hashes([(leaf, first, first + 1) for leaf in leaf_arrays(block.observations)]),
        "end_hashes": _hashes([(leaf, last, last + 1) for leaf in leaf_arrays(block.observations)]),
        "rewards": finite(block.rewards).astype(np.float32),
        "flags": _flags(block),
        "distances": norm(achieved[before + 1] - desired[before], axis=1).astype(np.float32),
        "speeds": norm(achieved[before + 1] - achieved[before], axis=1).astype(np.float32),
        "future_distances": norm(achieved[before] - achieved[future], axis=1).astype(np.float32),
        "not_finite": np.stack(not_finite, axis=1),
    }
    ranges = {name: range_of(flat(leaf)) for name, leaf in others.items() if leaf.dtype.kind in NUMBERS}
    ranges |= {"achieved_goal": range_of(achieved), "desired_goal": range_of(desired)}
    ranges["action"] = range_of(np.concatenate(actions, axis=1) if actions else np.zeros((1, 0)))
    return columns, ranges


def range_of(rows: np.ndarray) -> np.ndarray:
    """Return the smallest and the largest value of each column of (N, K) numbers, as (2, K) float64.

    NaN is ignored, unless a column has an infinite value or only NaN. In this case, NaN and infinities count
    as 0 in all columns.
    """
    found = np.stack([np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)]).astype(np.float64)
    return found if np.isfinite(found).all() else range_of(finite(rows))


def projected(rows: np.ndarray) -> np.ndarray:
    """Return (N, K) numbers unchanged, or a random projection, (N, 16), if K is above `MAX_GOAL_SIZE`."""
    size = rows.shape[1]
    if size <= MAX_GOAL_SIZE:
        return rows
    return np.asarray(rows @ np.random.default_rng(0).normal(size=(size, PROJECTED_SIZE)))


def finite(rows: np.ndarray) -> np.ndarray:
    """Return numbers with 0 instead of NaN and infinity."""
    return np.asarray(np.nan_to_num(rows, nan=0, posinf=0, neginf=0))


def flat(leaf: np.ndarray) -> np.ndarray:
    """Return an array of N rows, reshaped to (N, K)."""
    return leaf.reshape(len(leaf), -1)


def split_goals(observations: Tree) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return achieved and desired goals of S states, (S, G) each, and the other observations by name.

    Raises:
        ValueError: A key is missing, or goals are not numeric or differ in size.
    """
    keys = observations if isinstance(observations, dict) else ()
    if missing := [key for key in OBSERVATION_KEYS if key not in keys]:
        raise ValueError(
            f"the observations must have the keys {', '.join(map(repr, OBSERVATION_KEYS))}, but lack "
            f"{', '.join(map(repr, missing))}; `her doctor` needs episodes of a goal environment"
        )
    goals = []
    for key in OBSERVATION_KEYS[1:]:
        leaves = _named_leaves(observations[key])
        if not leaves or any(leaf.dtype.kind not in NUMBERS for leaf in leaves.values()):
            got = f"got dtypes {[str(leaf.dtype) for leaf in leaves.values()]}"
            raise ValueError(f"{key!r} must be a numeric array or a dict of numeric arrays, {got}")
        rows = [flat(leaf) for _, leaf in sorted(leaves.items())]
        goals.append(np.concatenate(rows, axis=1).astype(np.float64))
    achieved, desired = goals
    if achieved.shape != desired.shape:
        raise ValueError(
            "'achieved_goal' and 'desired_goal' must have the same number of components, got "
            f"{achieved.shape[1]} and {desired.shape[1]}"
        )
    rest = {key: value for key, value in observations.items() if key not in OBSERVATION_KEYS[1:]}
    return achieved, desired, _named_leaves(rest)


def _named_leaves(tree: Tree) -> dict[str, np.ndarray]:
    return {leaf.name: leaf.find(tree, "") for leaf in SpaceSpec.of_rows("", tree)}


def _not_finite(leaves: Iterable[np.ndarray], count: int) -> np.ndarray:
    found = np.zeros(count, np.bool_)
    for leaf in leaves:
        if leaf.dtype.kind == "f":
            found |= ~np.isfinite(leaf).reshape(count, -1).all(axis=1)
    return found


def _flags(block: Episodes) -> np.ndarray:
    name = flag_name(block.infos)
    flags = None if name is None else block.infos[name]
    if flags is None or flags.size != block.num_steps or flags.dtype.kind not in NUMBERS:
        return np.full(block.num_steps, -1, np.int8)
    return np.where(np.isnan(flags), -1, flags > 0.5).reshape(-1).astype(np.int8)


def _hashes(columns: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return one hash for each episode. A column is (array, begins, ends): a range of rows per episode."""
    parts = [[leaf[i:j].tobytes() for i, j in zip(*bounds, strict=True)] for leaf, *bounds in columns]
    return np.array([hash(each) for each in zip(*parts, strict=True)], np.int64)
