"""Goals as trees: one of them, and batches of them. Most are arrays; FrankaKitchen's are dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


def stack(goals: Sequence[Any]) -> Any:
    """Batch goals of one structure: the leaves get a leading axis."""
    if isinstance(goals[0], dict):
        return {key: stack([goal[key] for goal in goals]) for key in goals[0]}
    return np.stack([np.asarray(goal) for goal in goals])


def flat(goal: Any) -> np.ndarray:
    """Return all numbers of a goal as one float64 vector."""
    if isinstance(goal, dict):
        return np.concatenate([flat(part) for part in goal.values()])
    return np.asarray(goal, dtype=np.float64).ravel()


def leaves(goal: Any) -> list[np.ndarray]:
    """Return the arrays of a goal."""
    if isinstance(goal, dict):
        return [leaf for part in goal.values() for leaf in leaves(part)]
    return [np.asarray(goal)]


def between(start: Any, end: Any, fraction: float) -> Any:
    """Return the goal at ``fraction`` of the way, in the dtype of ``start``."""
    if isinstance(start, dict):
        return {key: between(start[key], end[key], fraction) for key in start}
    start = np.asarray(start)
    return (start + fraction * (np.asarray(end) - start)).astype(start.dtype)


def are_real(goal: Any) -> bool:
    """Whether every number of a goal is a float, so that there are goals in between."""
    return all(leaf.dtype.kind == "f" for leaf in leaves(goal))


def shapes(goal: Any) -> Any:
    """Return a goal with the shapes of its leaves in their place."""
    if isinstance(goal, dict):
        return {key: shapes(part) for key, part in goal.items()}
    return np.shape(goal)
