"""EpisodeArchive: episodes on disk, in a folder of shards.

The folder is the index: the number of a shard is in its file name, and the numbers of its episodes and steps
are in its header. The manifest, a JSON file, describes the environment and never lists shards::

    manifest.json  shard-000000.npz  shard-000001.npz ..  lock
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from filelock import BaseFileLock
from gymnasium import spaces

from her_wrappers.data import Json
from her_wrappers.data.arrays import CorruptFileError, as_corrupt, require_version
from her_wrappers.data.atomic import PART, acquire_lock, make_lock, replacement
from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.data.text import parse_file
from her_wrappers.goals.interface import AnyEnv
from her_wrappers.recording import shards
from her_wrappers.recording.dataset import EpisodeErrors
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.space_json import Source
from her_wrappers.support.arguments import require_count

MANIFEST = "manifest.json"
LOCK = "lock"
KIND = "her-toolkit archive of episodes"
VERSION = 3
OLDEST_VERSION = 2  # whose manifests also list shards; the lists are ignored


class Shard(NamedTuple):
    """A file of episodes: its number, and how many episodes and steps it has; None if unreadable."""

    number: int
    episodes: int | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Manifest:
    """Description of an archive."""

    archive: str = ""  # random name, which is also in the shards; empty without an archive
    source: Source | None = None
    versions: dict[str, str] = field(default_factory=dict)  # of the packages that created the archive


class _ArchiveState(NamedTuple):
    """Content of an archive, replaced as a whole, except for `pending`; interruptions leave it whole."""

    manifest: Manifest
    shards: tuple[Shard, ...]  # in the order in which they were written
    pending: shards.Pending  # episodes that are not in shards
    specs: tuple[SpaceSpec, SpaceSpec] | None = None  # leaves of observations and actions, if known


class EpisodeArchive:
    """A folder of episodes: a sink for recorders, and a source for buffers.

    Episodes are written in *shards*, files of many episodes that ``numpy.load`` can read. A shard is written
    completely or not at all. If the process is killed, episodes that are not in a shard yet are lost. `flush`
    writes them to a shard; so do `close`, the end of a ``with`` block, and a regular end of the program.

    If the folder already has an archive, new episodes are added to it. All episodes must have the same
    spaces: the spaces of ``env`` or, without ``env``, the spaces of the first episode. Only one
    `EpisodeArchive` object at a time can write to a folder. Any number of objects can read the folder at the
    same time, but an object that only reads does not see shards that are written after its creation.

    Args:
        path: The folder. If it does not exist, it is created when the archive is opened for writing: at once
            if ``env`` is given, otherwise when the first episode is added.
        env: Environment of the episodes, single or vectorized. The archive stores its id, arguments and
            spaces, and is opened for writing at once.
        shard_steps: Number of steps after which a shard is written. If steps are large, as with images, a
            shard is written earlier, when it has about 64 MiB.

    Raises:
        CorruptFileError: ``manifest.json`` is damaged or does not belong to an archive, or ``env`` is given
            and a shard is damaged or missing.
        InUseError: ``env`` is given, and another archive writes to the folder.
        OSError: The archive cannot be read. Or ``env`` is given, and ``path`` is not a folder, the folder has
            files but no archive, or the folder cannot be written.
        TypeError: ``env`` is not an environment, or a space of ``env`` cannot be described as JSON.
        ValueError: ``shard_steps`` is not an integer of at least 1, or ``env`` has other spaces or another id
            than the archive, or the archive was created without ``env``.

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
        self.path = Path(path).absolute()  # `os.chdir` must not change where shards are written
        self._shard_steps = require_count("shard_steps", shard_steps, at_least=1)
        self._lock = threading.RLock()
        self._state = _ArchiveState(Manifest(), (), shards.Pending())
        self._writer_lock: BaseFileLock | None = None
        self._process: int | None = None  # the process that has the archive open for writing
        if env is not None:
            self._open_for_writing(Source.of(env))
        elif (self.path / MANIFEST).exists():
            manifest = read_manifest(self.path)
            found = _find_shards(self.path, manifest.archive)
            self._state = _ArchiveState(manifest, found, shards.Pending())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle or copy the archive as its path: the copy reads the folder, with all episodes so far."""
        if self._process == os.getpid():
            self.flush()
        return type(self), (self.path,)

    def add_episode(self, episode: Episode) -> None:
        """Add a copy of a finished episode; the errors are those of `add_episodes`."""
        self.add_episodes([episode])

    __call__ = add_episode

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        """Add copies of finished episodes; if an error is raised, no episode is added.

        Raises:
            CorruptFileError: The archive in the folder is damaged.
            InUseError: Another archive writes to the folder.
            OSError: The folder cannot be opened for writing, or has files but no archive. Or earlier episodes
                cannot be written; they stay in memory, and the next call and `flush` try it again.
            RuntimeError: This process is a fork of the process that opened the archive.
            TypeError: An element is not an `Episode`, a key is not a string, or an array has elements that
                are not numbers, bools or strings.
            ValueError: An episode has other keys or shapes than the archive, has values that the dtypes
                of the archive cannot represent, or has keys or arrays that cannot be stored.
        """
        blocks = [episodes] if isinstance(episodes, Episodes) else [Episodes.of([each]) for each in episodes]
        if not blocks:
            return
        with self._lock:
            self._open_for_writing(None)
            self._write_full_shards()
            state = self._state
            specs = state.specs or _specs_of((state.pending.parts or blocks)[0])
            fitting = []
            for block in blocks:
                shards.require_storable_episodes(block)
                try:
                    fitting.append(block.cast(*specs))
                except ValueError as error:
                    raise ValueError(
                        f"the episode does not fit the spaces of the archive {self.path}: {error}"
                    ) from error
            state.pending.add(fitting)
            self._state = state._replace(specs=specs)
            atexit.unregister(self.close)
            atexit.register(self.close)
            # The episodes are added already, so an error is raised by the next call, which tries again.
            with contextlib.suppress(OSError, MemoryError):
                self._write_full_shards()

    def flush(self) -> None:
        """Write to disk all episodes that are only in memory.

        Raises:
            OSError: The episodes cannot be written; the archive keeps them in memory.
            RuntimeError: This process is a fork of the process that opened the archive.
        """
        with self._lock:
            while self._state.pending.parts:
                self._write_shard()

    def close(self) -> None:
        """Write to disk all episodes that are only in memory, and unlock the folder for other writers.

        A closed archive can still be read; adding episodes opens it again. In a fork of the process that
        opened the archive, this method does nothing.

        Raises:
            OSError: The episodes cannot be written; the archive keeps them in memory and stays open.
        """
        with self._lock:
            if self._writer_lock is None or self._process != os.getpid():
                return
            atexit.unregister(self.close)  # an error is reported once
            self.flush()
            self._writer_lock.release()
            self._process = None

    def __enter__(self) -> EpisodeArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of episodes in undamaged shards, plus episodes that are not in shards yet."""
        state = self._state
        return sum(shard.episodes or 0 for shard in state.shards) + sum(map(len, state.pending.parts))

    def __repr__(self) -> str:
        return f"<EpisodeArchive path={str(self.path)!r} episodes={len(self)} steps={self.num_steps}>"

    @property
    def num_steps(self) -> int:
        """Number of steps of the episodes that ``len()`` counts."""
        state = self._state
        pending = sum(part.num_steps for part in state.pending.parts)
        return sum(shard.steps or 0 for shard in state.shards) + pending

    @property
    def source(self) -> Source | None:
        """Description of the environment; None if the archive was created without ``env``."""
        return self._state.manifest.source

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that created the archive, by name."""
        return self._state.manifest.versions

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """Observation space of one environment; None if the archive was created without ``env``."""
        return None if self.source is None else self.source.spaces[0]

    @property
    def action_space(self) -> spaces.Space[Any] | None:
        """Action space of one environment; None if the archive was created without ``env``."""
        return None if self.source is None else self.source.spaces[1]

    def __iter__(self) -> Iterator[Episode]:
        """Call `flush`, and iterate over all episodes; the errors are those of `iter_shards`.

        Episodes are in the order in which they were added, with one exception: all episodes of a shard have
        the same types of rewards and infos, so one that differs can follow episodes that were added later.
        """
        return (episode for episodes in self.iter_shards() for episode in episodes)

    def iter_shards(self) -> Iterator[Episodes]:
        """Call `flush`, and iterate over the shards, which is faster than iterating over the episodes.

        Yields:
            The `Episodes` of one shard; the order of the shards is the order in which they were written.

        Raises:
            CorruptFileError: A shard is damaged.
            FileNotFoundError: The folder has no archive, or a shard is missing.
            OSError: A shard cannot be read or written.
            RuntimeError: This process is a fork of the process that opened the archive, and some episodes
                are not in shards yet.
        """
        return self.read_shards(EpisodeErrors("raise"))

    def read_shards(self, errors: EpisodeErrors) -> Iterator[Episodes]:
        """Call `flush`, and yield the shards; after each, the caller adds its length to ``errors.number``."""
        self.flush()
        archive = self._state.manifest.archive
        if not archive:
            raise FileNotFoundError(f"there is no archive at {self.path}: {MANIFEST} does not exist there")
        for shard in self._state.shards:
            try:
                episodes = shards.read_shard(shard_path(self.path, shard.number), archive, shard.number)
            except (CorruptFileError, OSError) as error:
                errors.handle(error, shard.episodes)
            else:
                yield episodes

    def _open_for_writing(self, source: Source | None) -> None:
        """Lock the folder, and read or create its manifest, unless this object has the lock."""
        self._require_own_process()
        if self._writer_lock is not None and self._writer_lock.is_locked:
            return
        folder = self.path
        if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
            raise NotADirectoryError(f"an archive must be a folder, got the file or broken link {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / MANIFEST).exists():
            read_manifest(folder)  # raises an error before a lock is written
        elif others := [path.name for path in folder.iterdir() if path.name != LOCK and path.suffix != PART]:
            raise FileExistsError(
                f"the folder {folder} must be an archive or empty, but it contains {min(others)!r}; "
                "choose another folder"
            )
        lock = self._writer_lock = make_lock(folder / LOCK)
        try:
            acquire_lock(lock, f"the archive {folder}")
            self._state = self._read_for_writing(source)
            self._process = os.getpid()
        except BaseException:
            lock.release(force=True)
            raise

    def _read_for_writing(self, source: Source | None) -> _ArchiveState:
        """Read the manifest or create one; raise ValueError if the archive contradicts ``source``."""
        for part in self.path.glob(f"*{PART}"):  # left by killed writers: this process has locked the folder
            part.unlink()
        if not (self.path / MANIFEST).exists():
            versions = {name: version(name) for name in ("her-toolkit", "gymnasium", "numpy")}
            new = vars(Manifest(secrets.token_hex(8), source, versions))
            content = {"kind": KIND, "version": VERSION, **new}
            text = json.dumps(content | {"crc32": _checksum(content)}, default=vars, separators=(",", ":"))
            with replacement(self.path / MANIFEST) as file:
                file.write(text.encode())
        manifest, specs = read_manifest(self.path), None
        found = _find_shards(self.path, manifest.archive, require_all=True)
        if manifest.source is not None:
            observations, actions = manifest.source.spaces
            specs = SpaceSpec.of("observations", observations), SpaceSpec.of("actions", actions)
        elif found:
            specs = _specs_of(shards.read_shard(shard_path(self.path, 0), manifest.archive, 0))
        if source is not None:
            if manifest.source is None:
                fix = "open it without env, or choose another folder"
                raise ValueError(f"the archive {self.path} was created without an environment; {fix}")
            manifest.source.require_same(self.path, source)
        return _ArchiveState(manifest, found, shards.Pending(), specs)

    def _write_full_shards(self) -> None:
        while self._state.pending.is_full(self._shard_steps):
            self._write_shard()

    def _write_shard(self) -> None:
        """Write the oldest pending episodes as a shard."""
        self._require_own_process()
        manifest, written, pending, specs = self._state
        parts, rest = pending.next_shard(self._shard_steps)
        shard = Shard(len(written), sum(map(len, parts)), sum(part.num_steps for part in parts))
        labels = {"archive": manifest.archive, **shard._asdict()}
        shards.write_shard(shard_path(self.path, shard.number), parts, labels)
        self._state = _ArchiveState(manifest, (*written, shard), rest, specs)

    def _require_own_process(self) -> None:
        if self._process not in {None, os.getpid()}:
            raise RuntimeError(
                f"the archive {self.path} was opened before this process was forked. To write here, close it "
                "in the original process, then create a new one here. To read here, call flush() there before"
            )


def _specs_of(episodes: Episodes) -> tuple[SpaceSpec, SpaceSpec]:
    observations = SpaceSpec.of_rows("observations", episodes.observations)
    return observations, SpaceSpec.of_rows("actions", episodes.actions)


def shard_path(folder: Path, number: int) -> Path:
    """Return the path of the shard ``number``, counted from 0, of the archive in ``folder``."""
    return folder / f"shard-{number:06d}.npz"


def _find_shards(folder: Path, archive: str, *, require_all: bool = False) -> tuple[Shard, ...]:
    """Return the shards in order; damaged and missing shards are errors, or are included without counts."""
    names = [path.stem.removeprefix("shard-") for path in folder.glob("shard-*.npz")]
    numbers = {int(name) for name in names if name.isdecimal()}
    found = []
    for number in sorted(numbers | set(range(len(numbers)))):  # the first missing shards have small numbers
        path = shard_path(folder, number)
        try:
            found.append(Shard(number, *shards.read_labels(path, archive, number)))
        except (CorruptFileError, OSError) as error:
            if require_all:
                fix = "restore this file, or record into another folder"
                raise CorruptFileError(f"cannot add to the archive {folder}: {error}; {fix}") from error
            found.append(Shard(number))
    return tuple(found)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest; raise CorruptFileError if it is damaged."""
    path, expected = folder / MANIFEST, "the manifest of an archive"
    content: dict[str, Json] = parse_file(path, json.loads, expected)
    with as_corrupt(f"{path} is damaged, or is not {expected}"):
        require_version(path, content, KIND, VERSION, oldest=OLDEST_VERSION)
        if content.pop("crc32") != _checksum(content):
            raise ValueError("the checksum is wrong")
        source = content["source"]
        if source is not None:
            source = Source(**source)
            _ = source.spaces  # raises ValueError
        return Manifest(str(content["archive"]), source, dict(content["versions"]))


def _checksum(content: dict[str, Json]) -> int:
    canonical = json.dumps(content, default=vars, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return zlib.crc32(canonical.encode())
