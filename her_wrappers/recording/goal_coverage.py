"""Goal coverage: of what was asked for, how much was reached by chance or skill.

Goals are sorted into cells. Whole numbers and bits are a cell each; for floats the range of all goals is cut
into ten along each axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.trees import leaf_arrays

if TYPE_CHECKING:
    from her_wrappers.recording.archive import EpisodeArchive
    from her_wrappers.recording.episodes import Episodes

CELLS = 10
"""Along each axis of a goal of floats."""

GOALS = ("desired_goal", "achieved_goal")


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


def goal_coverage(archive: EpisodeArchive) -> Coverage:
    """Read the goals of an archive, and count.

    Raises:
        CorruptFileError: The archive is damaged.
        OSError: It cannot be read.
    """
    low, high = _bounds(archive)
    cells: dict[str, set[bytes]] = {name: set() for name in GOALS}
    for batch in archive.batches():
        for name in GOALS:
            cells[name] |= _cells(_goals(batch, name), low, high)
    desired, achieved = cells["desired_goal"], cells["achieved_goal"]
    return Coverage(len(desired), len(achieved), len(desired & achieved) / len(desired))


def _bounds(archive: EpisodeArchive) -> tuple[np.ndarray, np.ndarray]:
    """Return the (G,) least and largest of all goals of floats; zeros for others, which need none."""
    low, high = np.zeros(0), np.zeros(0)
    for batch in archive.batches():
        for name in GOALS:
            goals = _goals(batch, name)
            if goals.dtype.kind != "f":
                return low, high
            if low.size == 0:
                low, high = np.full(goals.shape[1], np.inf), np.full(goals.shape[1], -np.inf)
            finite = np.where(np.isfinite(goals), goals, np.nan)
            low, high = np.fmin(low, np.fmin.reduce(finite)), np.fmax(high, np.fmax.reduce(finite))
    return low, high


def _goals(batch: Episodes, name: str) -> np.ndarray:
    """Return the goals of all states as (T + n, G)."""
    leaves = leaf_arrays(batch.observations[name])
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def _cells(goals: np.ndarray, low: np.ndarray, high: np.ndarray) -> set[bytes]:
    if goals.dtype.kind == "f":
        width = np.where(high > low, high - low, 1)
        shares = np.nan_to_num((goals - low) / width, nan=-1, posinf=1, neginf=0)
        goals = np.clip(np.floor(shares * CELLS), -1, CELLS - 1).astype(np.int8)
    if goals.shape[1] == 0:
        return {b""}
    rows = np.unique(np.ascontiguousarray(goals).view((np.void, goals.dtype.itemsize * goals.shape[1])))
    return {blake2b(row.tobytes(), digest_size=16).digest() for row in rows}
