"""EpisodeBuffer: complete episodes in memory, first in, first out; base of `HindsightReplayBuffer`."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.dataset import Dataset, episodes_of
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.open_episodes import OpenEpisodes
from her_wrappers.replay.prioritized import Priorities
from her_wrappers.replay.stored_episodes import EpisodeReader
from her_wrappers.trees import copy_tree
from her_wrappers.user_warning import warn_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gymnasium import spaces

    from her_wrappers.files import Json
    from her_wrappers.replay.options import Options
    from her_wrappers.replay.relabeling import Relabeler
    from her_wrappers.replay.storage import EpisodeStorage
    from her_wrappers.trees import Tree

TOO_LONG = "raise buffer_size or cut episodes with EpisodeRecorder(max_episode_steps=)"


class EpisodeBuffer:
    """Complete episodes in memory. Base class of `HindsightReplayBuffer`.

    Args:
        storage: Memory of the episodes.
        options: Options of the buffer.
        relabeler: Relabeler that inspects new episodes, or None if nothing is relabeled.
    """

    def __init__(self, storage: EpisodeStorage, options: Options, relabeler: Relabeler | None) -> None:
        self._options = options
        self._storage = storage
        self._relabeler = relabeler
        priority, size = options.prioritized, options.buffer_size
        self._priorities = None if priority is None else Priorities(storage, size, priority)
        spaces = self.observation_space, self.action_space
        self._open_episodes = OpenEpisodes(*spaces, options.info_keys, options.buffer_size)
        # State of a saved relabeler, if `load` got no functions.
        self._unused_state: Json = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        """Return the number of stored transitions."""
        return self._storage.num_steps

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} transitions={len(self)} buffer_size={self.buffer_size} "
            f"episodes={self.num_episodes} goal_selection_strategy={self._options.goal_selection_strategy!r}>"
        )

    @property
    def buffer_size(self) -> int:
        """Maximum number of transitions."""
        return self._options.buffer_size

    @property
    def observation_space(self) -> spaces.Dict:
        """Dict space of the observations of one environment."""
        return self._storage.memory.layout.observation_space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Space of the actions of one environment."""
        return self._storage.memory.layout.action_space

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Keys of the infos that are stored; recorders with this buffer as a sink record them."""
        return self._storage.memory.layout.info_keys

    @property
    def num_episodes(self) -> int:
        """Number of stored episodes."""
        return self._storage.num_episodes

    @property
    def can_sample(self) -> bool:
        """Whether there is a complete episode to sample from."""
        return len(self) > 0

    @property
    def nbytes(self) -> int:
        """Memory allocated for transitions and their priorities, in bytes."""
        return self._storage.nbytes + (0 if self._priorities is None else self._priorities.nbytes)

    def add(  # noqa: PLR0917 - a transition, in the order in which Gymnasium's step returns it
        self,
        obs: Mapping[str, Tree],
        action: Tree,
        reward: Any,
        next_obs: Mapping[str, Tree],
        terminated: Any,
        truncated: Any,
        info: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        skip: Any = None,
    ) -> None:
        """Add one transition, or one of each of N environments; an episode can be sampled once it has ended.

        All values of N environments have a leading axis: row i is the transition of environment i, whose
        episode is separate from the others. Arrays may be torch tensors on any device.

        Args:
            obs: Observation; after the first step of an episode, equal to the previous ``next_obs``.
            action: Action.
            reward: Reward, a number or (N,).
            next_obs: Next observation, also at the last step of an episode. With N environments, a
                ``final_obs`` or ``terminal_observation`` in ``info`` has precedence at that step.
            terminated: Whether the task ended, a bool or (N,) bool.
            truncated: Whether the episode was truncated, a bool or (N,) bool.
            info: Info, which has the ``info_keys``. For N environments, a list of dicts, or one dict of
                arrays as Gymnasium's vector environments return.
            skip: (N,) bool, the environments whose row is not a transition. In Gymnasium's autoreset mode
                NEXT_STEP, these are the environments whose episode ended at the previous step.

        Raises:
            MemoryError: Not enough memory; the next call stores the episodes that ended.
            TypeError: A flag is not a bool; nothing is added.
            ValueError: A value does not fit its space, a reward is not finite, ``obs`` differs from the
                previous ``next_obs``, N differs while episodes are open, or an episode is longer than the
                buffer; nothing is added. Or `add_episodes` rejects the ended episodes, which are dropped.
        """
        with self._lock:
            self._store_ended()  # the ended episodes of an interrupted call
            episodes, transition = self._open_episodes, (obs, action, reward, next_obs, terminated, truncated)
            count = episodes.num_rows(obs)
            if count is not None:
                episodes.add_rows(count, *transition, info, skip)
            elif skip is not None:
                raise ValueError(
                    "skip must be None for a transition of a single environment (obs has no leading axis), "
                    f"got {skip!r}; leave skip out"
                )
            else:
                episodes.add(*transition, info)
            self._store_ended()

    def truncate_open_episode(self) -> None:
        """End the open episodes of `add` as truncated, for example after an interruption.

        Raises:
            MemoryError: Not enough memory; the next call of `add` stores the episodes.
            ValueError: `add_episodes` rejects the episodes, which are dropped.
        """
        with self._lock:
            self._store_ended()
            self._open_episodes.truncate()
            self._store_ended()

    def _store_ended(self) -> None:
        """Store the episodes of `add` that ended."""
        for episodes in self._open_episodes.ended:
            try:
                if self.last_added is not episodes:
                    self._add([episodes] if isinstance(episodes, Episode) else episodes, episodes)
            except MemoryError:
                raise
            except Exception:  # a rejected episode is dropped
                self._open_episodes.release(episodes)
                raise
            self._open_episodes.release(episodes)

    def add_episode(self, episode: Episode) -> None:
        """Add a complete episode, evicting the oldest ones as far as needed.

        Args:
            episode: An episode of the buffer's spaces; it is copied.

        Raises:
            TypeError: ``episode`` is not an `Episode`.
            MemoryError: Not enough memory.
            ValueError: The episode is longer than the buffer, does not fit the spaces, or has a reward that
                is not finite; or ``compute_reward`` or ``compute_terminated`` returns a wrong result. Nothing
                is added or evicted.
        """
        if not isinstance(episode, Episode):
            raise TypeError(f"add_episode takes an Episode, got {type(episode).__name__}")
        self._add([episode], episode)

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        """Add complete episodes, all or none, which is much faster than adding them one by one.

        Args:
            episodes: `Episodes`, or any number of `Episode`, all of the buffer's spaces; they are copied.

        Raises:
            TypeError: An element is not an `Episode`.
            MemoryError: Not enough memory; nothing is added or evicted.
            ValueError: An episode is not valid, see `add_episode`; the message names the episode.
        """
        if isinstance(episodes, Episodes):
            self._add(episodes, episodes)
        else:
            self._add(list(_iterate("add_episodes", episodes)), None)

    @property
    def last_added(self) -> Episode | Episodes | None:
        """The object that was added last; None if it no longer exists or was a list of episodes.

        This attribute changes at the same moment as the stored episodes, so recorders can find out whether an
        interrupted call of `add_episode` or `add_episodes` took effect.
        """
        added = self._storage.memory.last_added
        return None if added is None else added()

    def _add(self, episodes: Sequence[Episode], source: Episode | Episodes | None) -> None:
        """Validate, inspect and store episodes; `last_added` becomes ``source``, or None for a list."""
        if not episodes:
            return
        with self._lock:
            try:
                validated = self._validated(episodes)
            except ValueError:
                self._require_each_valid(episodes)
                raise
            self._storage.add(validated, self._inspect(validated), source)

    def _validated(self, episodes: Sequence[Episode]) -> Episodes:
        """Return episodes with the dtypes of the spaces."""
        layout = self._storage.memory.layout
        try:
            joined = Episodes.of(episodes)
        except ValueError:  # perhaps dtypes differ, which `validate` converts
            joined = Episodes.joined([layout.validate(run) for run in Episodes.runs(episodes)])
        if len(joined.rewards) > self.buffer_size:
            self._require_fit(joined, TOO_LONG)
        return layout.validate(joined)

    def _require_fit(self, episodes: Episodes, fix: str) -> None:
        longest = int(episodes.lengths.max())
        if longest > self.buffer_size:
            raise ValueError(
                f"an episode must fit the buffer of {self.buffer_size} transitions, got {longest} steps; "
                f"{fix}"
            )

    def _inspect(self, validated: Episodes) -> np.ndarray:
        """Return which episodes terminated independently of their goal."""
        if self._relabeler is not None:
            # The relabeler is replaced before the episodes are stored, so that batches with these episodes
            # are relabeled by the new one. It is also replaced before the user is warned, so that the warning
            # comes once even if a filter turns it into an error.
            self._relabeler, goal_independent, warnings = self._relabeler.fit(validated)
            for warning in warnings:
                warn_user(warning)
            return goal_independent
        if self._unused_state is not None:  # functions that are given later have to inspect these episodes
            self._unused_state = {**self._unused_state, "rule": None}
        return np.zeros(len(validated), np.bool_)

    def _require_each_valid(self, episodes: Sequence[Episode]) -> None:
        """Raise ValueError for the first of many episodes that is not valid by itself."""
        for number, episode in enumerate(episodes if len(episodes) > 1 else ()):
            try:
                self._validated([episode])
            except ValueError as error:
                raise ValueError(f"episodes[{number}]: {error}") from error

    def extend(self, episodes: Iterable[Episode] | Dataset) -> None:
        """Add the episodes of a source; if one is rejected, the episodes before it stay added.

        Args:
            episodes: An `EpisodeArchive`, added shard by shard; `Episodes`, added all or none; a
                ``minari.MinariDataset`` or an iterable of `Episode`, added one by one.

        Raises:
            CorruptFileError: A shard of the archive is damaged.
            MemoryError: Not enough memory.
            OSError: The archive cannot be read or written.
            TypeError: An element is not an `Episode`.
            ValueError: An episode is not valid, see `add_episode`.
        """
        if isinstance(episodes, EpisodeArchive):
            for block in episodes.batches():
                self.add_episodes(block)
        elif isinstance(episodes, Episodes):
            self.add_episodes(episodes)
        else:
            source = episodes_of(episodes) if isinstance(episodes, Dataset) else _iterate("extend", episodes)
            for episode in source:
                if not isinstance(episode, Episode):
                    raise TypeError(f"extend takes episodes, got {type(episode).__name__}")
                self.add_episode(episode)

    def episodes(self) -> Iterator[Episode]:
        """Iterate over copies of the stored episodes, oldest first.

        Episodes added after the iteration began are not returned, nor episodes evicted before their turn.
        Rewards have the precision of float32; infos are those of ``info_keys``.
        """
        with self._lock:
            reader = EpisodeReader(self._storage)
        for block in range(len(reader)):
            with self._lock:
                stored = reader.read(block)
            for episode in () if stored is None else stored.episodes:
                yield replace(
                    episode,
                    observations=copy_tree(episode.observations),
                    actions=copy_tree(episode.actions),
                    rewards=episode.rewards.astype(np.float64),
                    infos=copy_tree(episode.infos),
                )

    def verify(self) -> None:
        """Check that the internal data of the buffer are consistent, in time proportional to its size.

        Raises:
            RuntimeError: The data are inconsistent, for example after memory was overwritten from outside.
        """
        with self._lock:
            self._storage.verify()
            if self._priorities is not None:
                self._priorities.verify()

    def clear(self) -> None:
        """Remove all transitions, results of their inspection, and open episodes; serial numbers continue.

        Raises:
            MemoryError: Not enough memory for new allocations; nothing changes.
        """
        with self._lock:
            self._storage.clear()
            self._open_episodes.discard()
            self._unused_state = None
            if self._relabeler is not None:
                self._relabeler = self._relabeler.reset()
            if self._priorities is not None:
                self._priorities.reset()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the lock. No other thread may add or sample meanwhile."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes, with a new lock."""
        self.__dict__.update(state)
        self._lock = threading.RLock()


def _iterate(method: str, episodes: Iterable[Episode]) -> Iterator[Episode]:
    if isinstance(episodes, Episode):
        raise TypeError(f"{method} takes an iterable of episodes, got one Episode; use add_episode")
    try:
        return iter(episodes)
    except TypeError as error:
        raise TypeError(f"{method} takes an iterable of episodes, got {type(episodes).__name__}") from error
