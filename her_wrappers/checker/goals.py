"""Goals as trees, and batches of goals. Most goals are arrays; the goals of FrankaKitchen are dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.trees import concatenate_trees, leaf_arrays, map_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.trees import Tree


def stack(goals: Sequence[Tree]) -> Tree:
    """Batch goals of the same structure: each leaf gets a leading axis."""
    return concatenate_trees("goals", [map_tree(lambda leaf: np.asarray(leaf)[None], goal) for goal in goals])


def flat(goal: Tree) -> np.ndarray:
    """Return all values of a goal as a float64 array of shape (G,)."""
    return np.concatenate([leaf.astype(np.float64).ravel() for leaf in leaves(goal)])


def leaves(goal: Tree) -> list[np.ndarray]:
    """Return the leaves of a goal as arrays."""
    return [np.asarray(leaf) for leaf in leaf_arrays(goal)]


def between(start: Tree, end: Tree, fraction: float) -> Tree:
    """Return the goal at ``fraction`` of the way from ``start`` to ``end``, in the dtype of ``start``."""
    if isinstance(start, dict):
        return {key: between(start[key], end[key], fraction) for key in start}
    if isinstance(start, tuple):
        return tuple(between(*ends, fraction) for ends in zip(start, end, strict=True))
    start = np.asarray(start)
    return (start + fraction * (np.asarray(end) - start)).astype(start.dtype)


def are_real(goal: Tree) -> bool:
    """Whether all leaves of a goal are floats, so that goals between two goals exist."""
    return all(leaf.dtype.kind == "f" for leaf in leaves(goal))


def shapes(goal: Tree) -> Tree:
    """Return the shapes of the leaves of a goal, in its structure."""
    return map_tree(np.shape, goal)
