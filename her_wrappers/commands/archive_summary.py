"""Summary of an archive: lengths, returns, success, and coverage of the goals.

The coverage counts goals in cells. Each distinct goal of integers, bits or strings is a cell. For goals of
floats, a cell is a tenth of the range of all goals along each axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.spaces import SpaceSpec
from her_wrappers.trees import NUMBERS, STRINGS, leaf_arrays

if TYPE_CHECKING:
    from her_wrappers.recording.archive import EpisodeArchive
    from her_wrappers.recording.episodes import Episodes

CELLS = 10
"""Number of cells along each axis of a goal of floats."""

Bounds: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Coverage:
    """Numbers of cells of the goal space that contain desired and achieved goals.

    Attributes:
        desired: Number of cells with a desired goal.
        achieved: Number of cells with an achieved goal.
        covered: Share of the cells with a desired goal that also have an achieved goal, of any episode.
    """

    desired: int
    achieved: int
    covered: float


@dataclass(frozen=True)
class Range:
    """Minimum, mean and maximum over episodes."""

    least: float
    mean: float
    most: float


@dataclass(frozen=True)
class Summary:
    """Summary of an archive. Without episodes all fields from ``lengths`` on are None.

    Attributes:
        episodes: Number of episodes.
        steps: Number of steps of all episodes.
        lengths: Steps per episode.
        returns: Sum of the rewards per episode.
        terminated: Share of episodes that terminated.
        truncated: Share of episodes that were truncated.
        success: Share of episodes with ``is_success`` at the last step; None if it was not recorded.
        goals: Coverage of the goals; None without goals, or if desired and achieved goals differ in shape.
    """

    episodes: int
    steps: int
    lengths: Range | None = None
    returns: Range | None = None
    terminated: float | None = None
    truncated: float | None = None
    success: float | None = None
    goals: Coverage | None = None


def summarize(archive: EpisodeArchive) -> Summary:
    """Read all episodes of an archive, and return their summary.

    Raises:
        CorruptFileError: The archive is damaged.
        OSError: The archive cannot be read.
    """
    columns: dict[str, list[np.ndarray]] = {
        name: [] for name in ("lengths", "returns", "terminated", "truncated", "success")
    }
    has_goals = True
    for batch in archive.iter_shards():
        columns["lengths"].append(batch.lengths)
        with np.errstate(all="ignore"):  # rewards may be infinite
            columns["returns"].append(np.add.reduceat(batch.rewards.astype(np.float64), batch.ends[:-1]))
        columns["terminated"].append(batch.terminated)
        columns["truncated"].append(batch.truncated)
        columns["success"].append(_success(batch))
        has_goals &= isinstance(batch.observations, dict) and set(GOAL_KEYS) <= batch.observations.keys()
    if not columns["lengths"]:
        return Summary(0, 0)
    lengths, returns, terminated, truncated, success = map(np.concatenate, columns.values())
    return Summary(
        episodes=len(lengths),
        steps=int(lengths.sum()),
        lengths=_range(lengths),
        returns=_range(returns),
        terminated=float(terminated.mean()),
        truncated=float(truncated.mean()),
        success=None if np.isnan(success).any() else float(success.mean()),
        goals=goal_coverage(archive) if has_goals else None,
    )


def _range(values: np.ndarray) -> Range:
    with np.errstate(all="ignore"):
        return Range(float(values.min()), float(values.mean()), float(values.max()))


def _success(batch: Episodes) -> np.ndarray:
    """Return (n,) floats: 1 for success, 0 for failure, NaN if success was not recorded."""
    flags = batch.infos.get("is_success")
    if flags is None or flags.size != len(flags) or flags.dtype.kind not in NUMBERS:
        return np.full(len(batch), np.nan)
    last: np.ndarray = flags.reshape(-1)[batch.ends[1:] - 1].astype(np.float64)
    return last


def goal_coverage(archive: EpisodeArchive) -> Coverage | None:
    """Return the coverage of the goals of an archive; None if desired and achieved goals differ in shape.

    Args:
        archive: An archive with at least one episode, all of goal environments.

    Raises:
        CorruptFileError: The archive is damaged.
        OSError: The archive cannot be read.
    """
    bounds = np.zeros(0), np.zeros(0)
    for batch in archive.iter_shards():
        goals = _goals(batch)
        if goals is None:
            return None
        bounds = _widened(bounds, goals)
    cells: list[set[bytes]] = [set(), set()]
    for batch in archive.iter_shards():
        for known, rows in zip(cells, _goals(batch) or (), strict=True):
            known.update(_cells(rows, *bounds))
    desired, achieved = cells
    return Coverage(len(desired), len(achieved), len(desired & achieved) / len(desired))


def _goals(batch: Episodes) -> tuple[np.ndarray, np.ndarray] | None:
    """Return desired and achieved goals of all states, (T + n, G) of one dtype; None if shapes differ."""
    trees = [batch.observations[name] for name in ("desired_goal", "achieved_goal")]
    desired, achieved = (
        {leaf.path: (leaf.shape, leaf.dtype.kind in STRINGS) for leaf in SpaceSpec.of_rows("goal", tree)}
        for tree in trees
    )
    if desired != achieved:
        return None
    one, other = (_as_rows(leaf_arrays(tree), batch.num_steps + len(batch)) for tree in trees)
    dtype = np.result_type(one, other)
    return one.astype(dtype), other.astype(dtype)


def _as_rows(leaves: list[np.ndarray], count: int) -> np.ndarray:
    """Return the components of (N, ...) arrays in one array (N, G)."""
    rows = [np.zeros((count, 0), bool), *(leaf.reshape(count, -1) for leaf in leaves)]
    if any(part.dtype.kind in STRINGS for part in rows):
        rows = [np.array(list(map(repr, part.ravel().tolist())), str).reshape(part.shape) for part in rows]
    return np.concatenate(rows, axis=1)


def _widened(bounds: Bounds, goals: tuple[np.ndarray, ...]) -> Bounds:
    """Return ``bounds``, the (G,) minima and maxima, extended so that they include ``goals``."""
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
    if goals.dtype.kind == "U":  # strings: their width depends on the batch
        return {_digest(repr(row).encode()) for row in goals.tolist()}
    if goals.shape[1] == 0:
        return {b""}
    rows = np.unique(np.ascontiguousarray(goals).view((np.void, goals.dtype.itemsize * goals.shape[1])))
    return {_digest(row.tobytes()) for row in rows}


def _tenths(goals: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the number of the cell of each component, int8; -1 for NaN."""
    with np.errstate(all="ignore"):  # goals may be infinite
        width = np.where(high > low, high / 2 - low / 2, 1)  # halves: the range may be too large for a float
        shares = np.nan_to_num((goals / 2 - low / 2) / width, nan=-1, posinf=1, neginf=0)
    return np.clip(np.floor(shares * CELLS), -1, CELLS - 1).astype(np.int8)


def _digest(cell: bytes) -> bytes:
    return blake2b(cell, digest_size=16).digest()
