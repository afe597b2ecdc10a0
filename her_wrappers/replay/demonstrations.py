"""Demonstrations: episodes of another policy that are never evicted and supply a fixed share of each batch.

A second, inner buffer with the options of the user's buffer stores the demonstrations. So demonstrations are
relabeled by the same strategies and termination rule, and get priorities and n-step returns too.

Sources: Nair et al. 2018, section IV, https://arxiv.org/abs/1709.10089; Ball et al. 2023, section 4.1,
https://arxiv.org/abs/2302.02948
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from her_wrappers.goals.success_flag import FLAG_NAMES
from her_wrappers.recording.dataset import Dataset, EpisodeErrors, episodes_of
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.batch import Batch, Provenance
from her_wrappers.support.user_warning import warn_user

if TYPE_CHECKING:
    from her_wrappers.data import Json


@runtime_checkable
class HasEpisodes(Protocol):
    """An object with a method ``episodes``, such as a `HindsightReplayBuffer`."""

    def episodes(self) -> Iterable[Episode]:
        """Return the episodes."""


@dataclass(frozen=True)
class Demonstrations:
    """Episodes of an expert or another policy, and their share of each batch.

    Attributes:
        episodes: An `EpisodeArchive`, a ``minari.MinariDataset``, a `HindsightReplayBuffer`, `Episodes` or an
            iterable of `Episode`. A buffer that is made with these demonstrations copies the episodes.
        share: Share of demonstrations among the rows of each batch, in (0, 1). If ``share`` times the
            batch size is not an integer, it is rounded up or down at random, so that the mean is exact.

    Raises:
        TypeError: ``episodes`` is a single `Episode`.
        ValueError: ``share`` is not a number in (0, 1).

    Example:
        >>> import gymnasium as gym, her_envs
        >>> from her_wrappers import Collector, Demonstrations, HindsightReplayBuffer
        >>> env = gym.make("her_envs/PointReach-v0")
        >>> demonstrations = Demonstrations(archive, share=0.25)  # doctest: +SKIP
        >>> HindsightReplayBuffer.for_env(env, demonstrations=demonstrations)  # doctest: +SKIP
    """

    episodes: Iterable[Episode] | Dataset | HasEpisodes
    share: float = 0.25

    def __post_init__(self) -> None:
        if not (isinstance(self.share, Real) and 0 < self.share < 1):
            raise ValueError(f"share of Demonstrations must be a number in (0, 1), got {self.share!r}")
        if isinstance(self.episodes, Episode):
            raise TypeError("Demonstrations() takes an iterable of episodes, got one Episode; pass [episode]")
        object.__setattr__(self, "share", float(self.share))  # the same as from a saved file

    def read(self) -> list[Episode]:
        """Return all episodes; raise ValueError if the source is empty."""
        source: Any = self.episodes
        if isinstance(source, Dataset):
            errors = EpisodeErrors("raise")
            source = errors.counted(episodes_of(source, errors))
        elif isinstance(source, HasEpisodes):
            source = source.episodes()
        try:
            listed = list(source)
        except TypeError as error:
            got = f"got {self.episodes!r}"
            raise TypeError(f"Demonstrations() takes an iterable of episodes, {got}") from error
        for each in listed:
            if not isinstance(each, Episode):
                got = f"but the iterable contains an object of type {type(each).__name__}"
                raise TypeError(f"Demonstrations() takes an iterable of Episode objects, {got}")
        if not listed:
            raise ValueError("Demonstrations must contain at least one episode, got none")
        return listed


class DemonstrationPart:
    """An inner buffer that stores the demonstrations of the outer buffer, which is the user's buffer.

    In batches of the outer buffer, the N steps of the demonstrations have the step numbers -N - 1 to -2. The
    number -1 is left out, since it is the ``goal_index`` of rows that are not relabeled.
    """

    def __init__(self, buffer: Any, share: float, seed: int | None) -> None:
        self.buffer, self._share = buffer, share
        self._rng = np.random.default_rng(None if seed is None else (seed, 1))
        self._offset = -len(buffer) - 1
        buffer._is_read_only = True  # the step numbers depend on its size

    @classmethod
    def of(cls, owner: Any, given: Demonstrations, arguments: Mapping[str, Any]) -> DemonstrationPart:
        """Return a part that stores ``given``; ``arguments`` are those of ``owner``, the user's buffer."""
        episodes, seed = given.read(), arguments["seed"]
        options = {name: arguments[name] for name in type(owner).__init__.__kwdefaults__ or {}}
        # Recorders record success flags by default, but episodes from other sources may lack them.
        recorded = set.intersection(*(set(episode.infos) for episode in episodes))
        keys = [key for key in arguments["info_keys"] if key in recorded or key not in FLAG_NAMES]
        options |= {"buffer_size": sum(map(len, episodes)), "info_keys": keys, "demonstrations": None}
        options["seed"] = (
            None if seed is None else int(np.random.SeedSequence((seed, 2)).generate_state(1)[0])
        )
        buffer = type(owner)(owner.observation_space, owner.action_space, **options)
        if buffer._checks is not None:
            buffer._checks.subject = "demonstrations: "
        try:
            buffer.add_episodes(episodes)
        except ValueError as error:
            raise ValueError(f"demonstrations: {error}") from error
        if not _have_success(episodes, buffer):
            warn_user(
                f"none of the {len(episodes)} demonstrations achieves its desired goal; record episodes of a "
                "policy that achieves its goals, or leave demonstrations= out"
            )
        return cls(buffer, given.share, seed)

    def count(self, batch_size: int) -> int:
        """Sample how many of the ``batch_size`` rows of a batch are demonstrations."""
        return int(batch_size * self._share + self._rng.random())

    def sample(self, batch_size: int, beta: float | None) -> Batch:
        """Return a batch of demonstrations, whose step numbers are negative, unlike those of other steps."""
        batch: Batch = self.buffer._sample(batch_size, beta)
        batch.index += self._offset
        origin = batch._require_provenance()
        batch.provenance = origin._replace(
            episode=origin.episode + self._offset, goal_index=origin.goal_index + self._offset
        )
        return batch

    def find(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which steps are demonstrations, (B,) bool, and their step numbers in ``self.buffer``."""
        found = (index >= self._offset) & (index < -1)
        return found, index[found] - self._offset

    @property
    def generator_state(self) -> Json:
        """State of the random generator that `count` uses."""
        return self._rng.bit_generator.state

    @generator_state.setter
    def generator_state(self, state: Json) -> None:
        self._rng.bit_generator.state = state


def merge(batches: list[Batch], arrays: Any) -> Batch:
    """Return the rows of several batches as one batch, in which relabeled rows come first."""
    relabeled = np.concatenate([arrays.to_numpy(batch.relabeled) for batch in batches])
    order = (~relabeled).argsort(kind="stable")
    rows = arrays.from_numpy(order)

    def join(*parts: Any) -> Any:
        if isinstance(parts[0], dict):
            return {key: join(*(part[key] for part in parts)) for key in parts[0]}
        if isinstance(parts[0], tuple):
            return tuple(map(join, *parts))
        return arrays.concatenate(parts)[rows]

    origins = [batch._require_provenance() for batch in batches]
    columns = [join(*(getattr(batch, name) for batch in batches)) for name in Batch.__match_args__[:-1]]
    merged = Batch(*columns)
    episode, goal_index, component = (
        np.concatenate([origin[i] for origin in origins])[order] for i in range(3)
    )
    merged.provenance = Provenance(episode, goal_index, component, origins[0].names)
    return merged


def _have_success(episodes: list[Episode], buffer: Any) -> bool:
    """Return whether at least one demonstration achieves its goal; also return True if this is unknown."""
    flags = [episode.infos[name] for episode in episodes for name in FLAG_NAMES if name in episode.infos]
    if flags:
        return any(np.any(each) for each in flags)
    rewards = np.concatenate([episode.rewards for episode in episodes])
    if buffer._checks is None or len(np.unique(rewards)) > 2:
        return True
    return bool(buffer._checks._are_at_goals(Episodes.of(episodes)).any())
