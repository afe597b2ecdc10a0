"""Infos for Stable-Baselines3: the dicts that came with steps, for rewards that need them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from her_wrappers.recording.episodes import Episodes

STEP = "step"
"""The info that a replay buffer keeps in the place of a dict: the number under which the dict is found."""


class RecordedInfos:
    """The infos of all steps that are stored or may yet be.

    Args:
        n_envs: Number of environments, N.
    """

    def __init__(self, n_envs: int) -> None:
        self._n_envs = n_envs
        self._next = 0
        self._by_step: dict[int, dict[str, Any]] = {}
        self._stored: deque[int] = deque()

    def keep(self, infos: Iterable[Mapping[str, Any]]) -> np.ndarray:
        """Copy the infos of a step, and return the (N,) numbers under which they are found again."""
        steps = np.arange(self._next, self._next + self._n_envs)
        self._next += self._n_envs
        self._by_step.update(zip(steps.tolist(), map(copy_tree, infos), strict=True))
        return steps

    def follow(self, episodes: Episodes, count: int) -> None:
        """Note that these episodes were stored last, and forget all but the last ``count`` steps stored."""
        self._stored.extend(episodes.infos[STEP].tolist())
        while len(self._stored) > count:
            del self._by_step[self._stored.popleft()]

    def of(self, info: Any) -> Any:
        """Return what was recorded in the place of one dict with the number of a step, or of many."""
        if isinstance(info, dict):
            return dict(self._by_step.get(info.get(STEP, -1), {}))
        return [self.of(row) for row in info]
