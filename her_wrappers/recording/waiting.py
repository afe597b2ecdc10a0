"""Waiting: episodes of an archive that are in no shard yet, those that can share one together."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from her_wrappers.recording.episode_layout import joined, nbytes

if TYPE_CHECKING:
    from her_wrappers.recording.episodes import Episodes

Kind: TypeAlias = Hashable
"""What episodes must have alike to share a shard."""


@dataclass(frozen=True)
class _Part:
    """Episodes, and how many there are up to them: whoever appends them has counted them too."""

    episodes: Episodes
    total_episodes: int
    total_steps: int


class Waiting:
    """Episodes of one kind, in the order in which they came.

    An interruption at any moment, as by Ctrl-C, leaves it as it was before a call or as it is after it.

    Args:
        *parts: The first ones.
    """

    def __init__(self, *parts: Episodes) -> None:
        self._parts: list[_Part] = []
        for part in parts:
            self.add(part)

    def add(self, episodes: Episodes) -> None:
        """Append episodes."""
        self._parts.append(
            _Part(episodes, self.num_episodes + len(episodes), self.num_steps + episodes.num_steps)
        )

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return self._parts[-1].total_episodes if self._parts else 0

    @property
    def num_steps(self) -> int:
        """Steps of all of them."""
        return self._parts[-1].total_steps if self._parts else 0

    def bytes_per_step(self) -> float:
        """Return the size of a step, judging by the first episodes."""
        first = self._parts[0].episodes
        return nbytes(first) / first.num_steps

    def together(self) -> Episodes:
        """Return all of them end to end."""
        if len(self._parts) > 1:
            whole = joined([part.episodes for part in self._parts])
            self._parts = [_Part(whole, len(whole), whole.num_steps)]
        return self._parts[0].episodes
