"""Intake: how transitions and episodes come into a buffer, or are refused before anything changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.dataset import Dataset, episodes_of
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.values import as_reward
from her_wrappers.replay.refusal import require_each, require_fit
from her_wrappers.replay.storage.step_layout import INFINITE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from her_wrappers.recording.episode_accumulator import EpisodeAccumulator
    from her_wrappers.replay.relabeling.relabeling import AnyRelabeling
    from her_wrappers.replay.sampling.draws import Draws
    from her_wrappers.replay.storage.episode_storage import EpisodeStorage
    from her_wrappers.replay.storage.step_layout import StepLayout
    from her_wrappers.trees import Tree


@dataclass(frozen=True, eq=False)
class Intake:
    """Stores episodes, after all that may refuse them has looked at them.

    Attributes:
        storage: Where they go.
        layout: Of the storage.
        relabeling: Learns from them.
        draws: Forgets what was drawn ahead.
        open_episode: The one that grows by `add`.
        buffer_size: Steps that the storage holds.
    """

    storage: EpisodeStorage
    layout: StepLayout
    relabeling: AnyRelabeling
    draws: Draws
    open_episode: EpisodeAccumulator
    buffer_size: int

    def add(  # noqa: PLR0917 - a transition, as `HindsightReplayBuffer.add` has it
        self,
        obs: Mapping[str, Tree],
        action: Tree,
        reward: float,
        next_obs: Mapping[str, Tree],
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any] | None,
    ) -> None:
        """Add a transition to the open episode, and store that where it ends.

        Raises:
            TypeError: As `HindsightReplayBuffer.add`.
            ValueError: As `HindsightReplayBuffer.add`.
        """
        growing = self.open_episode
        length = max(0, growing.length)
        number = as_reward(reward, length)
        _require_finite(number, length)
        _require_flag("terminated", terminated)
        _require_flag("truncated", truncated)
        self._begin_or_continue(obs, length)
        growing.act(action)
        growing.observe(number, next_obs, info or {})
        if terminated or truncated:
            self.store([growing.finish(terminated=bool(terminated), truncated=bool(truncated))])

    def truncate(self) -> None:
        """Store the open episode as truncated, if there is one.

        Raises:
            ValueError: As `HindsightReplayBuffer.add_episode`; it is dropped.
        """
        if self.open_episode.length > 0:
            self.store([self.open_episode.finish(terminated=False, truncated=True)])
        self.open_episode.discard()

    def store(self, episodes: Sequence[Episode]) -> None:
        """Store episodes, all or none.

        Raises:
            MemoryError: There is not so much memory.
            TypeError: There is something else among them.
            ValueError: As `HindsightReplayBuffer.add_episode`, for one of them, which is named.
        """
        if not len(episodes):
            return
        try:
            together = Episodes.of(episodes)
            require_fit(together, self.buffer_size)
            encoded = self.storage.encode(together)
        except ValueError:
            require_each(episodes, self.layout, self.buffer_size)
            raise
        for part in encoded:
            self.relabeling.learn(part)
        self.draws.forget()
        for part in encoded:
            self.storage.append(part)

    def _begin_or_continue(self, obs: Mapping[str, Tree], length: int) -> None:
        """Begin an episode with ``obs``, or see that it follows on the open one.

        Raises:
            ValueError: It does not, or does not fit its space, or the episode is as long as the buffer.
        """
        if length == 0:
            self.open_episode.begin(obs, {})
            return
        try:
            self.open_episode.require_continuation(obs)
        except ValueError as error:
            raise ValueError(
                f"{error}; pass terminated or truncated where an episode ends or its goal is changed from "
                "outside, or call truncate_open_episode() after an interruption"
            ) from error
        if length >= self.buffer_size:
            raise ValueError(
                f"an episode must fit the buffer of {self.buffer_size} transitions, and the open one has as "
                "many; raise buffer_size, or pass truncated before, or call truncate_open_episode()"
            )


def require_episode(expected: str, episode: object) -> Episode:
    """Return an episode.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(episode, Episode):
        raise TypeError(f"{expected}, got {type(episode).__name__}")
    return episode


def as_sequence(episodes: Iterable[Episode]) -> Sequence[Episode]:
    """Return episodes as a sequence.

    Raises:
        TypeError: They are a single one, or cannot be iterated over.
    """
    return episodes if isinstance(episodes, Episodes) else list(_iterate("add_episodes", episodes))


def parts_of(source: Iterable[Episode] | Dataset) -> Iterator[Sequence[Episode]]:
    """Return the episodes of a source, as many at once as it hands out.

    Raises:
        TypeError: There is something else among them.
    """
    if isinstance(source, EpisodeArchive):
        yield from source.batches()
    elif isinstance(source, Episodes):
        yield source
    else:
        episodes = episodes_of(source) if isinstance(source, Dataset) else _iterate("extend", source)
        for episode in episodes:
            yield [require_episode("extend takes episodes", episode)]


def _iterate(method: str, episodes: Iterable[Episode]) -> Iterator[Episode]:
    """Iterate over many episodes.

    Raises:
        TypeError: They are a single one, or cannot be iterated over.
    """
    if isinstance(episodes, Episode):
        raise TypeError(f"{method} takes many episodes, got one Episode; use add_episode")
    try:
        return iter(episodes)
    except TypeError as error:
        raise TypeError(f"{method} takes many episodes, got {type(episodes).__name__}") from error


def _require_finite(reward: float, step: int) -> None:
    if not abs(reward) < INFINITE:
        raise ValueError(f"reward must be finite as float32, got {reward} at step {step}")


def _require_flag(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be one bool, got {value!r}")
