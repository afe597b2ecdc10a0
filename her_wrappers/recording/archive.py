"""EpisodeArchive: episodes on disk."""

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
    read_shard,
    require_room,
    require_storable_episodes,
    shard_key,
    specs_of,
)
from her_wrappers.recording.space_json import Source, space_from_json

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers.goal_interface import AnyEnv


class EpisodeArchive:
    """A folder of episodes: a sink for recorders, and a source for buffers.

    Episodes are written in *shards*, files of many episodes that ``numpy.load`` can read. A shard is complete
    or absent. If the process is killed, episodes that are not in a shard yet are lost. `flush` writes them to
    a shard; so do `close`, the end of a ``with`` block, and a regular end of the program.

    If the folder has an archive, episodes are added to it. All episodes have the same spaces: those of
    ``env``, or else those of the first episode. Only one archive at a time can write to a folder. Any number
    of archives can read at the same time; each reads the shards that existed when it was opened.

    Args:
        path: The folder. If it does not exist, it is created when the archive is opened for writing: at once
            with ``env``, else when the first episode is added.
        env: Environment of the episodes, single or vectorized. The archive stores its id, arguments and
            spaces, and is opened for writing at once.
        shard_steps: Number of steps after which a shard is written. A shard is also written after about 64
            MiB.

    Raises:
        CorruptFileError: The archive is damaged, or the manifest is not of an archive; or with ``env``, a
            shard is missing.
        InUseError: ``env`` is given, and another archive writes to the folder.
        OSError: The archive cannot be read; or with ``env``, ``path`` is not a folder, the folder has other
            files, or it cannot be written.
        TypeError: ``env`` is not an environment, a space of ``env`` cannot be described as JSON, or a key of
            a space is not a string.
        ValueError: ``shard_steps`` is not an integer of at least 1, ``env`` has other spaces or another id
            than the archive, or elements of a space cannot be stored.

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

    _writer_lock: Claim | None = None  # held while the archive is open for writing

    def __init__(
        self, path: str | os.PathLike[str], *, env: AnyEnv | None = None, shard_steps: int = 100_000
    ) -> None:
        self.path = Path(path)
        self._shard_steps = require_count("shard_steps", shard_steps, at_least=1)
        self._lock = threading.RLock()
        self._state = ArchiveState()
        self._has_raised = False
        if env is not None:
            self._open_for_writing(Source.of(env))
        elif (self.path / NAME).exists():
            self._state = ArchiveState(with_unlisted_shards(self.path, read_manifest(self.path)))

    def add_episode(self, episode: Episode) -> None:
        """Add a copy of a finished episode; `add_episodes` lists the errors."""
        self._add([episode], episode)

    __call__ = add_episode

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        """Add finished episodes.

        Args:
            episodes: Episodes, which are copied.

        Raises:
            CorruptFileError: The archive in the folder is damaged. No episode is added.
            InUseError: Another archive writes to the folder. No episode is added.
            OSError: The folder cannot be opened for writing, or has other files; no episode is added. Or a
                shard cannot be written; the archive then keeps its episodes in memory, and tries to write
                them again when more episodes are added, or at `flush`.
            RuntimeError: This process is a fork of the process that opened the archive.
            TypeError: An element is not an `Episode`, a key is not a string, or an array has elements that
                are not numbers, bools or strings. No episode is added.
            ValueError: An episode has other leaves or shapes than the archive, values that the dtypes of the
                archive do not hold, or keys or arrays that cannot be stored. No episode is added.
        """
        block = episodes if isinstance(episodes, Episodes) else list(episodes)
        if block:
            self._add(block, episodes if isinstance(episodes, Episodes) else None)

    def _add(self, episodes: Iterable[Episode], given: Any) -> None:
        # `given` is the argument of the public method, for `last_added`; None if it was a list or iterator.
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
                    raise ValueError(
                        f"the archive {self.path} has episodes of other spaces: {error}"
                    ) from error
                key = shard_key(fitting)
                pending[key] = PendingEpisodes(fitting, pending.get(key))
            added = None if given is None else weakref.ref(given)
            self._state = replace(state, pending=pending, specs=specs, last_added=added)
            self._write_full_shards()

    @property
    def last_added(self) -> Episode | Episodes | None:
        """The `Episode` or `Episodes` that was added last.

        None if this object no longer exists, or if another iterable of episodes was added last.
        """
        added = self._state.last_added
        return None if added is None else added()

    def flush(self) -> None:
        """Write all episodes that are only in memory to shards.

        Raises:
            OSError: The episodes cannot be written; the archive keeps them in memory.
            RuntimeError: This process is a fork of the process that opened the archive.
        """
        with self._lock:
            for key in list(self._state.pending):
                self._write_shards(key, at_least=1)

    def close(self) -> None:
        """Write all episodes that are only in memory to shards, and allow other archives to write.

        A closed archive can still be read; adding episodes opens it again. In a fork of the process that
        opened the archive, this method does nothing.

        Raises:
            OSError: The episodes cannot be written; the archive keeps them in memory and stays open.
        """
        with self._lock:
            lock = self._writer_lock
            if lock is None or self._process != os.getpid():
                return
            self._has_raised = True
            self.flush()
            if len(self._state.manifest.shards) != self._state.listed:
                self._list_shards()
            self._writer_lock = None
            lock.release()
            self._has_raised = False

    def __enter__(self) -> EpisodeArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Close the archive; warn if episodes are lost, unless `close` was called before."""
        lock = self._writer_lock
        if lock is None:
            return
        has_raised = self._has_raised
        try:
            self.close()
        except Exception as error:  # no caller can catch it
            self._writer_lock = None
            lock.release()
            if not has_raised:
                lost = self._state.num_pending[0]
                warnings.warn(
                    f"the archive {self.path} cannot be written, so {lost} of its episodes are lost: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def __len__(self) -> int:
        """Return the number of episodes, including those that are not in shards yet."""
        state = self._state
        return state.manifest.num_episodes + state.num_pending[0]

    def __repr__(self) -> str:
        return f"<EpisodeArchive path={str(self.path)!r} episodes={len(self)} steps={self.num_steps}>"

    @property
    def num_steps(self) -> int:
        """Number of steps of all episodes, including those that are not in shards yet."""
        state = self._state
        return state.manifest.num_steps + state.num_pending[1]

    @property
    def source(self) -> Source | None:
        """Description of the environment; None if the archive was never opened with ``env``."""
        return self._state.manifest.source

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that created the archive, by name."""
        return self._state.manifest.versions

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """Observation space of one environment; None if the archive was never opened with ``env``."""
        return None if self.source is None else space_from_json(self.source.observation_space)

    @property
    def action_space(self) -> spaces.Space[Any] | None:
        """Action space of one environment; None if the archive was never opened with ``env``."""
        return None if self.source is None else space_from_json(self.source.action_space)

    def __iter__(self) -> Iterator[Episode]:
        """Flush, and iterate over all episodes.

        The order is the order in which the episodes were added, except that episodes whose infos differ in
        their keys, shapes or dtypes, or whose rewards differ in their dtype, are in separate shards.

        Raises:
            CorruptFileError: A shard is damaged.
            FileNotFoundError: The folder has no archive, or a shard is missing.
            OSError: A shard cannot be read or written.
            RuntimeError: This process is a fork of the process that opened the archive, and episodes are not
                in shards yet.
        """
        self.flush()
        for number, shard in enumerate(self._state.manifest.shards):
            # list() reserves memory for len() episodes.
            require_room(shard_path(self.path, number), shard.episodes, shard.steps)
        return (episode for episodes in self.batches() for episode in episodes)

    def batches(self) -> Iterator[Episodes]:
        """Flush, and iterate over the shards, which is faster than iterating over the episodes.

        Raises:
            CorruptFileError: A shard is damaged.
            FileNotFoundError: The folder has no archive, or a shard is missing.
            OSError: A shard cannot be read or written.
            RuntimeError: This process is a fork of the process that opened the archive, and episodes are not
                in shards yet.
        """
        self.flush()
        manifest = self._state.manifest
        if not manifest.archive:
            raise FileNotFoundError(f"there is no archive at {self.path}: it has no {NAME}")
        for number, shard in enumerate(manifest.shards):
            yield read_shard(shard_path(self.path, number), shard.checksum)

    def _open_for_writing(self, source: Source | None) -> None:
        # Locks the folder and reads shards that other archives added, unless this archive has the lock.
        if self._writer_lock is not None:
            self._require_own_process()
            return
        specs = None if source is None else specs_of_source(source)  # before the folder is made
        make_folder(self.path)
        lock = Claim(self.path / LOCK, f"the archive {self.path}")
        try:
            listed = read_or_begin(self.path, source)
            require_shards(self.path, listed)
            manifest = with_unlisted_shards(self.path, listed)
            if manifest.source is not None and source is not None:
                manifest.source.require_same(self.path, source)
            specs = agreed_specs(self.path, manifest, specs)
        except BaseException:
            lock.release()
            raise
        state = ArchiveState(manifest, len(listed.shards), specs=specs)
        if manifest.source is None and source is not None:
            state = replace(state, manifest=replace(manifest, source=source), listed=-1)
        self._state, self._process, self._writer_lock = state, os.getpid(), lock
        _open_archives.add(self)

    def _write_full_shards(self) -> None:
        """Write full shards; write all episodes if many shards that are not full use too much memory."""
        limit = self._shard_steps
        for key in list(self._state.pending):
            limit = self._state.pending[key].steps_per_shard(self._shard_steps)
            self._write_shards(key, at_least=limit)
        if self._state.num_pending[1] >= 2 * limit:
            self.flush()

    def _write_shards(self, key: Hashable, *, at_least: int) -> None:
        """Write shards while at least ``at_least`` steps with the shard key are pending."""
        while key in self._state.pending and self._state.pending[key].num_steps >= at_least:
            self._require_own_process()
            state = self._state = self._state.write_shard(self.path, key, self._shard_steps)
            if len(state.manifest.shards) - state.listed > state.listed // 100:
                self._list_shards()

    def _list_shards(self) -> None:
        write_manifest(self.path, self._state.manifest)
        self._state = replace(self._state, listed=len(self._state.manifest.shards))

    def _require_own_process(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError(
                f"the archive {self.path} was opened before this process was forked; "
                "open it in this process, or flush it before the fork"
            )


_open_archives: weakref.WeakSet[EpisodeArchive] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for archive in list(_open_archives):
        archive.__del__()
