"""EpisodeArchive: episodes on disk, where a sink leaves them and a source finds them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from her_wrappers.arguments import require_count
from her_wrappers.recording.archive_writer import ArchiveWriter
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.manifest import NAME, Manifest, read_manifest, shard_path, with_unlisted_shards
from her_wrappers.recording.shards import read_shard
from her_wrappers.recording.source import source_of
from her_wrappers.recording.space_json import space_from_json

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers.goal_interface import AnyEnv
    from her_wrappers.recording.episode import Episode
    from her_wrappers.recording.source import Source


class EpisodeArchive:
    """A folder of episodes: a sink for recorders, and a source for buffers.

    Episodes are collected and written many at once, as a *shard*, a file that ``numpy.load`` opens. A shard
    is there whole or not at all. When the process is killed, the episodes are lost that were not in a shard
    yet; `flush` puts them into one, and `close`, the end of a ``with`` block and a regular end of the program
    do so too.

    An archive that exists is added to. It holds episodes of one shape: those of the environment that it is
    given, or else those of its first episode. One archive at a time can write to a folder; any number can
    read meanwhile. They see what was in shards when they were opened.

    Args:
        path: The folder; it is made when it is needed.
        env: Environment, single or vectorised, that the episodes come from. The archive remembers its id,
            arguments and spaces, and is ready for writing at once.
        shard_steps: A shard is written once so many steps have come together, or 64 MiB.

    Raises:
        CorruptFileError: The archive is damaged, or something else.
        InUseError: Another archive writes to the folder.
        OSError: The folder is none, holds other things, or cannot be read or written.
        TypeError: ``env`` is no environment, or has a space that JSON cannot describe, or that has keys that
            are no strings.
        ValueError: ``shard_steps`` is no whole number of at least 1, or ``env`` has other spaces or another
            id than the archive, or a space whose elements no shard holds.

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

    def __init__(
        self, path: str | os.PathLike[str], *, env: AnyEnv | None = None, shard_steps: int = 100_000
    ) -> None:
        self.path = Path(path)
        self._shard_steps = require_count("shard_steps", shard_steps, at_least=1)
        self._writer: ArchiveWriter | None = None
        self._lock = threading.RLock()
        self._manifest = Manifest("", None, {})
        if env is not None:
            self._open_writer(source_of(env))
        elif (self.path / NAME).exists():
            self._manifest = with_unlisted_shards(self.path, read_manifest(self.path))

    def __call__(self, episode: Episode) -> None:
        """Add a finished episode, as recorders do; see `add_episodes`."""
        self.add_episodes([episode])

    def add_episode(self, episode: Episode) -> None:
        """Add a finished episode; see `add_episodes`."""
        self.add_episodes([episode])

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        """Add finished episodes; `Episodes` are taken as a whole.

        Args:
            episodes: They are copied.

        Raises:
            InUseError: Another archive writes to the folder.
            OSError: A shard cannot be written. What is in none is kept, and tried again with the next.
            TypeError: One is no `Episode`, or has a key that is no string, or arrays of other things than
                numbers, bools and strings. None is added.
            ValueError: They have other parts, shapes or dtypes than those in the archive, or keys or arrays
                that no file holds. None is added.
        """
        block = episodes if isinstance(episodes, Episodes) else list(episodes)
        if block:
            block = Episodes.of(block)
            with self._lock:
                self._open_writer(None).add(block)

    def flush(self) -> None:
        """Put all episodes into shards, so that nothing is lost by a kill.

        Raises:
            OSError: They cannot be written; they are kept.
        """
        with self._lock:
            if self._writer is not None:
                self._writer.flush()

    def close(self) -> None:
        """Flush, and let others write to the folder. The archive can still be read, and be added to.

        Raises:
            OSError: The episodes cannot be written; they are kept, and the archive stays open.
        """
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._finalizer.detach()
                self._manifest, self._writer = self._writer.manifest, None

    def __enter__(self) -> EpisodeArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of episodes."""
        with self._lock:
            pending = self._writer.pending_episodes if self._writer is not None else 0
            return self._known.num_episodes + pending

    @property
    def num_steps(self) -> int:
        """Steps of all episodes."""
        with self._lock:
            pending = self._writer.pending_steps if self._writer is not None else 0
            return self._known.num_steps + pending

    @property
    def source(self) -> Source | None:
        """Where the episodes come from; None where no environment was given."""
        return self._known.source

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that began the archive."""
        return self._known.versions

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """Observations of one environment; None where no environment was given."""
        return None if self.source is None else space_from_json(self.source.observation_space)

    @property
    def action_space(self) -> spaces.Space[Any] | None:
        """Actions of one environment; None where no environment was given."""
        return None if self.source is None else space_from_json(self.source.action_space)

    def __iter__(self) -> Iterator[Episode]:
        """Read all episodes, after a `flush`.

        They come in the order in which they were added, but for those whose infos have unlike dtypes, which
        no shard holds together.

        Raises:
            CorruptFileError: A shard is damaged.
            FileNotFoundError: There is no archive, or a shard is missing.
        """
        for episodes in self.batches():
            yield from episodes

    def batches(self) -> Iterator[Episodes]:
        """Read all episodes, those of a shard at once, which is faster; otherwise as by iterating.

        Raises:
            CorruptFileError: A shard is damaged.
            FileNotFoundError: There is no archive, or a shard is missing.
        """
        self.flush()
        known = self._known
        if not known.archive:
            raise FileNotFoundError(f"there is no archive at {self.path}: it has no {NAME}")
        for number, shard in enumerate(known.shards):
            yield read_shard(shard_path(self.path, number), shard.checksum)

    @property
    def _known(self) -> Manifest:
        return self._manifest if self._writer is None else self._writer.manifest

    def _open_writer(self, source: Source | None) -> ArchiveWriter:
        if self._writer is None:
            self._writer = ArchiveWriter(self.path, source, self._shard_steps)
            self._finalizer = weakref.finalize(self, self._writer.close_unheard)  # at the program's end too
        return self._writer
