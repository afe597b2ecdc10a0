"""EpisodeArchive: episodes on disk, a sink for recorders and a source for buffers."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from her_wrappers.arguments import require_count
from her_wrappers.files.atomic import Claim
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.manifest import (
    LOCK,
    NAME,
    ArchiveState,
    agreed_specs,
    make_folder,
    read_manifest,
    read_or_begin,
    require_shards,
    shard_path,
    specs_of_source,
    with_unlisted_shards,
    write_manifest,
)
from her_wrappers.recording.shards import (
    PendingEpisodes,
    kind_of,
    read_shard,
    require_room,
    require_storable_episodes,
    specs_of,
)
from her_wrappers.recording.space_json import Source, space_from_json

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers.goal_interface import AnyEnv


class EpisodeArchive:
    """A folder of episodes: a sink for recorders, and a source for buffers.

    Episodes are collected and written many at once, as a *shard*, a file that ``numpy.load`` opens. A shard
    is complete or absent. If the process is killed, the episodes are lost that were not in a shard yet;
    `flush` writes them to one, and so do `close`, the end of a ``with`` block and a regular end of the
    program.

    An archive that exists is added to. It holds episodes of one shape: those of the environment that it is
    given, or else those of its first episode. One archive at a time can write to a folder; any number can
    read meanwhile, and see the shards that were there when they were opened.

    Args:
        path: The folder; it is made when it is needed.
        env: Environment, single or vectorised, that the episodes come from. The archive stores its id,
            arguments and spaces, and is ready for writing at once.
        shard_steps: A shard is written as soon as it has this number of steps, or 64 MiB.

    Raises:
        CorruptFileError: The archive is damaged, or the manifest is not of an archive; or with ``env``, a
            shard is missing.
        InUseError: Another archive writes to the folder.
        OSError: The path is not a folder, the folder holds other things, or cannot be read or written.
        TypeError: ``env`` is not an environment, or has a space that JSON cannot describe, or keys that are
            not strings.
        ValueError: ``shard_steps`` is not a whole number of at least 1, or ``env`` has other spaces or
            another id than the archive, or a space whose elements cannot be stored.

    Example:
        >>> import gymnasium as gym, her_envs, tempfile
        >>> from her_wrappers import EpisodeArchive, EpisodeRecorder
        >>> folder = tempfile.mkdtemp()
        >>> env = gym.make("her_envs/PointReach-v0")
        >>> with EpisodeArchive(folder, env=env) as archive:
        ...     env = EpisodeRecorder(env, archive)
        ...     observation, info = env.reset(seed=0)
        ...     for _ in range(50):
        ...         observation, reward, terminated, truncated, info = env.step([0.5, 0.5])
        >>> archive = EpisodeArchive(folder)
        >>> len(archive), archive.num_steps, archive.source.env_id
        (1, 50, 'her_envs/PointReach-v0')
        >>> [len(episode) for episode in archive]
        [50]
    """

    _claim: Claim | None = None  # held while the archive is open for writing

    def __init__(
        self, path: str | os.PathLike[str], *, env: AnyEnv | None = None, shard_steps: int = 100_000
    ) -> None:
        self.path = Path(path)
        self._shard_steps = require_count("shard_steps", shard_steps, at_least=1)
        self._lock = threading.RLock()
        self._state = ArchiveState()
        self._told_of_failure = False
        if env is not None:
            self._open_for_writing(Source.of(env))
        elif (self.path / NAME).exists():
            self._state = ArchiveState(with_unlisted_shards(self.path, read_manifest(self.path)))

    def add_episode(self, episode: Episode) -> None:
        """Add a finished episode; see `add_episodes`."""
        self._add([episode], episode)

    __call__ = add_episode

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        """Add finished episodes; `Episodes` are taken as a whole.

        Args:
            episodes: Episodes, which are copied.

        Raises:
            InUseError: Another archive writes to the folder.
            OSError: A shard cannot be written. Its episodes are kept, and tried again with the next ones.
            RuntimeError: This process is a fork of the one that opened the archive.
            TypeError: An element is not an `Episode`, or has a key that is not a string, or arrays of other
                elements than numbers, bools and strings. No episode is added.
            ValueError: An episode has other leaves, shapes or dtypes than those in the archive, or keys or
                arrays that cannot be stored. No episode is added.
        """
        block = episodes if isinstance(episodes, Episodes) else list(episodes)
        if block:
            self._add(block, episodes if isinstance(episodes, Episodes) else None)

    def _add(self, episodes: Iterable[Episode], given: Any) -> None:
        # The caller gave the object `given`.
        blocks = Episodes.runs(episodes)
        with self._lock:
            self._open_for_writing(None)
            state = self._state
            pending = dict(state.pending)
            specs = state.specs or specs_of(blocks[0])
            for block in blocks:
                require_storable_episodes(block)
                try:
                    fitting = block.cast(*specs)
                except ValueError as error:
                    raise ValueError(f"the archive {self.path} is of other spaces: {error}") from error
                kind = kind_of(fitting)
                pending[kind] = PendingEpisodes(fitting, pending.get(kind))
            added = None if given is None else weakref.ref(given)
            self._state = replace(state, pending=pending, specs=specs, last_added=added)
            self._write_full_shards()

    @property
    def last_added(self) -> Episode | Episodes | None:
        """The episode or episodes that were added last, as they were given, while the caller has them."""
        added = self._state.last_added
        return None if added is None else added()

    def flush(self) -> None:
        """Write all episodes to shards, so that a kill loses nothing.

        Raises:
            OSError: The episodes cannot be written; they are kept.
            RuntimeError: This process is a fork of the one that opened the archive.
        """
        with self._lock:
            for kind in list(self._state.pending):
                self._write_shards(kind, at_least=1)

    def close(self) -> None:
        """Flush, and let others write to the folder. The archive can still be read, and be added to.

        Raises:
            OSError: The episodes cannot be written; they are kept, and the archive stays open.
        """
        with self._lock:
            claim = self._claim
            if claim is None or self._process != os.getpid():
                return
            self._told_of_failure = True
            self.flush()
            if len(self._state.manifest.shards) != self._state.listed:
                self._list_shards()
            self._claim = None
            claim.release()

    def __enter__(self) -> EpisodeArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Close the archive at the end of the program; warn of lost episodes unless `close` raised before."""
        claim = self._claim
        if claim is None:
            return
        was_told = self._told_of_failure
        try:
            self.close()
        except Exception as error:  # no caller can catch it
            self._claim = None
            claim.release()
            if not was_told:
                lost = self._state.num_pending[0]
                warnings.warn(
                    f"the archive {self.path} loses {lost} episodes, which it could not write: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def __len__(self) -> int:
        """Return the number of episodes."""
        state = self._state
        return state.manifest.num_episodes + state.num_pending[0]

    @property
    def num_steps(self) -> int:
        """Number of steps of all episodes."""
        state = self._state
        return state.manifest.num_steps + state.num_pending[1]

    @property
    def source(self) -> Source | None:
        """The environment of the episodes; None if no environment was given."""
        return self._state.manifest.source

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that began the archive."""
        return self._state.manifest.versions

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """Observation space of one environment; None if no environment was given."""
        return None if self.source is None else space_from_json(self.source.observation_space)

    @property
    def action_space(self) -> spaces.Space[Any] | None:
        """Action space of one environment; None if no environment was given."""
        return None if self.source is None else space_from_json(self.source.action_space)

    def __iter__(self) -> Iterator[Episode]:
        """Read all episodes, after a `flush`.

        They come in the order in which they were added, except those whose infos have unlike dtypes, which
        are in shards of their own.

        Raises:
            CorruptFileError: A shard is damaged.
            FileNotFoundError: There is no archive, or a shard is missing.
        """
        self.flush()
        for number, shard in enumerate(self._state.manifest.shards):
            # list() reserves memory for len() episodes.
            require_room(shard_path(self.path, number), shard.episodes, shard.steps)
        return (episode for episodes in self.batches() for episode in episodes)

    def batches(self) -> Iterator[Episodes]:
        """Read all episodes, those of a shard at once, which is faster; otherwise as by iterating.

        Raises:
            CorruptFileError: A shard is damaged.
            FileNotFoundError: There is no archive, or a shard is missing.
        """
        self.flush()
        manifest = self._state.manifest
        if not manifest.archive:
            raise FileNotFoundError(f"there is no archive at {self.path}: it has no {NAME}")
        for number, shard in enumerate(manifest.shards):
            yield read_shard(shard_path(self.path, number), shard.checksum)

    def _open_for_writing(self, source: Source | None) -> None:
        # Claims the folder, unless this archive has it, and reads what others added meanwhile.
        if self._claim is not None:
            self._require_own_process()
            return
        specs = None if source is None else specs_of_source(source)  # before the folder is made
        make_folder(self.path)
        claim = Claim(self.path / LOCK, f"the archive {self.path}")
        try:
            listed = read_or_begin(self.path, source)
            require_shards(self.path, listed)
            manifest = with_unlisted_shards(self.path, listed)
            if manifest.source is not None and source is not None:
                manifest.source.require_same(self.path, source)
            specs = agreed_specs(self.path, manifest, specs)
        except BaseException:
            claim.release()
            raise
        state = ArchiveState(manifest, len(listed.shards), specs=specs)
        if manifest.source is None and source is not None:
            state = replace(state, manifest=replace(manifest, source=source), listed=-1)
        self._state, self._process, self._claim = state, os.getpid(), claim
        _open_archives.add(self)

    def _write_full_shards(self) -> None:
        """Write the shards that are full, and all if there are many kinds of infos of which none is."""
        limit = self._shard_steps
        for kind in list(self._state.pending):
            limit = self._state.pending[kind].steps_per_shard(self._shard_steps)
            self._write_shards(kind, at_least=limit)
        if self._state.num_pending[1] >= 2 * limit:
            self.flush()

    def _write_shards(self, kind: Hashable, *, at_least: int) -> None:
        """Write shards while there are ``at_least`` pending steps of a kind."""
        while kind in self._state.pending and self._state.pending[kind].num_steps >= at_least:
            self._require_own_process()
            state = self._state = self._state.write_shard(self.path, kind, self._shard_steps)
            if len(state.manifest.shards) - state.listed > state.listed // 100:
                self._list_shards()

    def _list_shards(self) -> None:
        write_manifest(self.path, self._state.manifest)
        self._state = replace(self._state, listed=len(self._state.manifest.shards))

    def _require_own_process(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError(
                f"the archive {self.path} belongs to the process that opened it, not to its forks; "
                "open it there, or flush it before"
            )


_open_archives: weakref.WeakSet[EpisodeArchive] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for archive in list(_open_archives):
        archive.__del__()
