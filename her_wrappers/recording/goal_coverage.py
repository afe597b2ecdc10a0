"""Goal coverage: of what was asked for, how much was reached by chance or skill.

Goals are sorted into cells. Whole numbers and bits are a cell each; for floats the range of all goals is cut
into ten along each axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from her_wrappers.recording.episode_layout import leaves_of_tree
from her_wrappers.trees import STRINGS, leaf_arrays

if TYPE_CHECKING:
    from her_wrappers.recording.archive import EpisodeArchive
    from her_wrappers.recording.episodes import Episodes

CELLS = 10
"""Along each axis of a goal of floats."""

GOALS = ("desired_goal", "achieved_goal")

Bounds: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Coverage:
    """How far goals were reached.

    Attributes:
        desired: Number of cells with a desired goal.
        achieved: Number of cells with an achieved goal.
        covered: Share of the cells with a desired goal that have an achieved goal too, of any episode: goals
            that relabeling can teach.
    """

    desired: int
    achieved: int
    covered: float


def goal_coverage(archive: EpisodeArchive) -> Coverage | None:
    """Read the goals of an archive, and count; None where desired and achieved goals cannot be compared.

    Raises:
        CorruptFileError: The archive is damaged.
        OSError: It cannot be read.
    """
    bounds = np.zeros(0), np.zeros(0)
    for batch in archive.batches():
        goals = _goals(batch)
        if goals is None:
            return None
        bounds = _widened(bounds, goals)
    cells: list[set[bytes]] = [set(), set()]
    for batch in archive.batches():
        for known, rows in zip(cells, _goals(batch) or (), strict=True):
            known.update(_cells(rows, *bounds))
    desired, achieved = cells
    return Coverage(len(desired), len(achieved), len(desired & achieved) / len(desired))


def _goals(batch: Episodes) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the desired and the achieved goals of all states, as (T + n, G) of one dtype."""
    trees = [batch.observations[name] for name in GOALS]
    desired, achieved = (
        {path: (shape, dtype.kind in STRINGS) for path, (shape, dtype) in leaves_of_tree(tree).items()}
        for tree in trees
    )
    if desired != achieved:
        return None
    one, other = (_as_rows(leaf_arrays(tree), batch.num_steps + len(batch)) for tree in trees)
    dtype = np.result_type(one, other)
    return one.astype(dtype), other.astype(dtype)


def _as_rows(leaves: list[np.ndarray], count: int) -> np.ndarray:
    """Put (N, ...) arrays side by side: (N, G)."""
    rows = [np.zeros((count, 0), bool), *(leaf.reshape(count, -1) for leaf in leaves)]
    if any(part.dtype.kind in STRINGS for part in rows):
        rows = [np.array(list(map(repr, part.ravel().tolist())), str).reshape(part.shape) for part in rows]
    return np.concatenate(rows, axis=1)


def _widened(bounds: Bounds, goals: tuple[np.ndarray, ...]) -> Bounds:
    """Return the (G,) least and largest of goals of floats; others need none."""
    low, high = bounds
    for rows in goals:
        if rows.dtype.kind != "f":
            return bounds
        if low.size == 0:
            low, high = np.full(rows.shape[1], np.inf), np.full(rows.shape[1], -np.inf)
        finite = np.where(np.isfinite(rows), rows, np.nan).astype(np.float64)
        low, high = np.fmin(low, np.fmin.reduce(finite)), np.fmax(high, np.fmax.reduce(finite))
    return low, high


def _cells(goals: np.ndarray, low: np.ndarray, high: np.ndarray) -> set[bytes]:
    if goals.dtype.kind == "f":
        goals = _tenths(goals.astype(np.float64), low, high)
    if goals.dtype.kind == "U":  # as wide as the longest of its batch
        return {_digest(repr(row).encode()) for row in goals.tolist()}
    if goals.shape[1] == 0:
        return {b""}
    rows = np.unique(np.ascontiguousarray(goals).view((np.void, goals.dtype.itemsize * goals.shape[1])))
    return {_digest(row.tobytes()) for row in rows}


def _tenths(goals: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return in which part of the range each number stands: int8."""
    with np.errstate(all="ignore"):  # of infinite numbers
        width = np.where(high > low, high / 2 - low / 2, 1)  # halves: the range may be too large for a float
        shares = np.nan_to_num((goals / 2 - low / 2) / width, nan=-1, posinf=1, neginf=0)
    return np.clip(np.floor(shares * CELLS), -1, CELLS - 1).astype(np.int8)


def _digest(cell: bytes) -> bytes:
    return blake2b(cell, digest_size=16).digest()
