"""Infos of `HerReplayBuffer`: dicts of any content, for rewards that need them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from her_wrappers.recording.episodes import Episodes

STEP = "step"
"""Key of the info that the buffer stores: the number of the dict in `RecordedInfos`."""


class RecordedInfos:
    """Infos of all steps in the buffer and in open episodes.

    Args:
        n_envs: Number of environments, N.
    """

    def __init__(self, n_envs: int) -> None:
        self._n_envs = n_envs
        self._next = 0
        self._by_step: dict[int, dict[str, Any]] = {}
        self._stored: deque[int] = deque()

    def keep(self, infos: Iterable[Mapping[str, Any]]) -> np.ndarray:
        """Store copies of the infos of a step, and return their numbers, (N,) int64."""
        steps = np.arange(self._next, self._next + self._n_envs)
        self._next += self._n_envs
        self._by_step.update(zip(steps.tolist(), map(copy_tree, infos), strict=True))
        return steps

    def evict(self, episodes: Episodes, count: int) -> None:
        """Drop the infos of all but the last ``count`` stored steps; ``episodes`` were stored last."""
        self._stored.extend(episodes.infos[STEP].tolist())
        while len(self._stored) > count:
            del self._by_step[self._stored.popleft()]

    def of(self, info: Any) -> Any:
        """Return a copy of the recorded info whose number is in the dict ``info``.

        For a list of B dicts, return a (B,) array of dicts, which is the form in SB3's class.
        """
        if isinstance(info, dict):
            return copy_tree(self._by_step.get(info.get(STEP, -1), {}))
        rows = np.empty(len(info), object)
        rows[:] = [self.of(row) for row in info]
        return rows
