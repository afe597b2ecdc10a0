"""Summary: what an archive holds, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.recording.goal_coverage import Coverage, goal_coverage
from her_wrappers.trees import NUMBERS

if TYPE_CHECKING:
    from her_wrappers.recording.archive import EpisodeArchive


@dataclass(frozen=True)
class Range:
    """Of one number an episode: the least, the mean, the largest."""

    least: float
    mean: float
    most: float


@dataclass(frozen=True)
class Summary:
    """What is in an archive.

    Attributes:
        episodes: Number of them.
        steps: Steps of all of them.
        lengths: Steps of an episode; None without episodes, as all that follows.
        returns: Sum of rewards of an episode.
        terminated: Share of episodes whose task ended.
        truncated: Share of episodes that were cut short.
        success: Share of episodes with ``is_success`` at the last step; None where that was not recorded.
        goals: How far goals were reached; None where there are no goals, or none that can be compared.
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
    """Read all episodes of an archive, and count.

    Raises:
        CorruptFileError: The archive is damaged.
        OSError: It cannot be read.
    """
    columns: dict[str, list[np.ndarray]] = {
        name: [] for name in ("lengths", "returns", "terminated", "truncated", "success")
    }
    has_goals = True
    for batch in archive.batches():
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


def _success(batch: Any) -> np.ndarray:
    """Return (n,) 1 for success, 0 for none, NaN where that was not recorded."""
    flags = batch.infos.get("is_success")
    if flags is None or flags.size != len(flags) or flags.dtype.kind not in NUMBERS:
        return np.full(len(batch), np.nan)
    last: np.ndarray = flags.reshape(-1)[batch.ends[1:] - 1].astype(np.float64)
    return last
