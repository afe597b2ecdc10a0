"""Batches of a vector environment: the rows of each environment, and arrays of wrong shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from her_wrappers.checker.rollout import ResetRecord, StepRecord
from her_wrappers.trees import leaf_arrays, map_tree


def wrong_shapes(
    record: ResetRecord | StepRecord, num_envs: int
) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Yield name, shape and expected shape of each array that does not have one row per environment.

    Args:
        record: Batch of a vector environment.
        num_envs: Number of environments, N.
    """
    observation = record.observation
    trees = observation if isinstance(observation, dict) else {"observation": observation}
    for key, tree in trees.items():
        for leaf in leaf_arrays(tree):
            if leaf_array(leaf).shape[:1] != (num_envs,):
                yield str(key), leaf_array(leaf).shape, f"({num_envs}, ...)"
    if isinstance(record, ResetRecord):
        return
    for name in ("reward", "terminated", "truncated"):
        shape = leaf_array(getattr(record, name)).shape
        if shape != (num_envs,):
            yield name, shape, f"({num_envs},)"


def leaf_array(value: Any) -> np.ndarray:
    """Return a value as an array, or an array of shape () for lists of unequal length."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.asarray(None)


def ended_rows(step: StepRecord) -> np.ndarray:
    """Return whether the episode of each environment ended: (N,) bool."""
    return np.array([bool(one or other) for one, other in zip(step.terminated, step.truncated, strict=True)])


def row(batch: Any, i: int) -> Any:
    """Return a tree with row ``i`` of each array.

    Args:
        batch: Tree of (N, ...) arrays.
        i: Index of the environment.
    """
    return map_tree(lambda leaf: leaf[i], batch)
