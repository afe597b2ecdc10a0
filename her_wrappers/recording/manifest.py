"""Manifest of an archive: list of the shards, and description of the environment.

The manifest is a JSON file in the folder of the shards. It is replaced when it lacks more than about one
hundredth of the shards, and when the archive is closed. Shards that the manifest does not list, such as those
written shortly before the process was killed, are found by their names and labels.
"""

from __future__ import annotations

import json
import secrets
import zlib
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from her_wrappers.files.atomic import PART, open_regular, replacement
from her_wrappers.files.reading import CorruptFileError
from her_wrappers.recording.shards import (
    PendingEpisodes,
    read_labels,
    read_shard,
    require_storable_space,
    specs_of,
    write_shard,
)
from her_wrappers.recording.space_json import Source, space_from_json
from her_wrappers.spaces import SpaceSpec

if TYPE_CHECKING:
    import weakref
    from collections.abc import Hashable, Mapping
    from pathlib import Path

    from her_wrappers.files import Json

NAME = "manifest.json"
LOCK = "lock"
KIND = "her-toolkit archive of episodes"
VERSION = 1

MAX_BYTES = 2**23
"""Maximum size of a manifest in bytes, which limits the time to read it."""

MAX_LISTED = 40_000
"""Maximum number of shards that a manifest lists; later shards are found by their names."""

MAX_COUNT = 2**40
"""Maximum number of episodes or steps of a shard."""

WRITERS = ("her-toolkit", "gymnasium", "numpy")
"""Packages whose versions are stored."""


@dataclass(frozen=True)
class Shard:
    """One file of episodes.

    Attributes:
        episodes: Number of episodes.
        steps: Number of steps of all episodes.
        checksum: Checksum of the file.
    """

    episodes: int
    steps: int
    checksum: int


@dataclass(frozen=True)
class Manifest:
    """Content of an archive.

    Attributes:
        archive: Random name of the archive, which is also in its shards; empty if there is no archive.
        source: Description of the environment, or None.
        versions: Versions of the packages that created the archive.
        shards: The shards, in the order in which they were written.
    """

    archive: str = ""
    source: Source | None = None
    versions: dict[str, str] = field(default_factory=dict)
    shards: tuple[Shard, ...] = ()

    @property
    def num_episodes(self) -> int:
        """Number of episodes in all shards."""
        return sum(shard.episodes for shard in self.shards)

    @property
    def num_steps(self) -> int:
        """Number of steps in all shards."""
        return sum(shard.steps for shard in self.shards)


@dataclass(frozen=True)
class ArchiveState:
    """Episodes of an open archive; immutable.

    Attributes:
        manifest: Manifest with all shards.
        listed: Number of shards in the manifest file; -1 if the file must be replaced for another reason.
        pending: Episodes that are not in shards, by `shard_key`.
        specs: Leaves of observations and actions, or None if they are not known.
        last_added: Reference to the object that was added last.
    """

    manifest: Manifest = field(default_factory=Manifest)
    listed: int = 0
    pending: Mapping[Hashable, PendingEpisodes] = field(default_factory=dict)
    specs: tuple[SpaceSpec, SpaceSpec] | None = None
    last_added: weakref.ref[Any] | None = None

    @property
    def num_pending(self) -> tuple[int, int]:
        """Number of episodes and number of steps that are not in shards."""
        pending = self.pending.values()
        return sum(each.num_episodes for each in pending), sum(each.num_steps for each in pending)

    def write_shard(self, folder: Path, key: Hashable, max_steps: int) -> ArchiveState:
        """Write the next shard of pending episodes, and return the new state.

        Args:
            folder: Folder of the archive.
            key: A key of ``pending``.
            max_steps: Number of steps with which a shard is full. Its last episode may exceed this number.

        Raises:
            OSError: The shard cannot be written.
        """
        pending = dict(self.pending)
        episodes, rest = pending.pop(key).take_shard(max_steps)
        if rest is not None:
            pending[key] = rest
        number = len(self.manifest.shards)
        labels = {
            "archive": self.manifest.archive,
            "number": number,
            "episodes": len(episodes),
            "steps": episodes.num_steps,
        }
        checksum = write_shard(shard_path(folder, number), episodes, labels)
        shard = Shard(len(episodes), episodes.num_steps, checksum)
        manifest = replace(self.manifest, shards=(*self.manifest.shards, shard))
        return replace(self, manifest=manifest, pending=pending)


def shard_path(folder: Path, number: int) -> Path:
    """Return the path of the shard ``number``, counted from 0, of the archive in ``folder``."""
    return folder / f"shard-{number:06d}.npz"


def make_folder(folder: Path) -> None:
    """Create the folder of an archive, unless it exists.

    Raises:
        CorruptFileError: The manifest in the folder is damaged, or not of an archive.
        FileExistsError: The folder has other files.
        NotADirectoryError: The path is a file, or a link to a path that does not exist.
        OSError: The folder or the manifest cannot be created or read.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"expected the path of a folder, got the file {folder}")
    if folder.is_symlink() and not folder.exists():
        raise NotADirectoryError(
            f"expected the path of a folder, got the link {folder} to a path that does not exist"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / NAME).exists():
        read_manifest(folder)
        return
    others = {path.name for path in folder.iterdir()} - {LOCK, NAME + PART}
    if others:
        raise FileExistsError(
            f"expected an archive or an empty folder, got {folder} with {min(others)!r} in it"
        )


def read_or_begin(folder: Path, source: Source | None) -> Manifest:
    """Return the manifest of a folder; write a new one if the folder has none.

    Args:
        folder: Folder of the archive.
        source: Description of the environment for a new manifest, or None.

    Raises:
        CorruptFileError: The manifest is damaged, not a manifest, or of a later version.
        OSError: The manifest cannot be read or written.
    """
    if (folder / NAME).exists():
        return read_manifest(folder)
    manifest = Manifest(secrets.token_hex(8), source, {name: version(name) for name in WRITERS})
    write_manifest(folder, manifest)
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest file, which lists at most `MAX_LISTED` shards.

    Raises:
        OSError: The file cannot be written.
    """
    listed = replace(manifest, shards=manifest.shards[:MAX_LISTED])
    content = {
        "kind": KIND,
        "version": VERSION,
        "archive": manifest.archive,
        "source": None if manifest.source is None else asdict(manifest.source),
        "versions": manifest.versions,
        "episodes": listed.num_episodes,
        "steps": listed.num_steps,
        "shards": [
            {
                "file": shard_path(folder, number).name,
                "episodes": shard.episodes,
                "steps": shard.steps,
                "crc32": f"{shard.checksum:08x}",
            }
            for number, shard in enumerate(listed.shards)
        ],
    }
    with replacement(folder / NAME) as file:
        text = json.dumps({**content, "crc32": _checksum(content)}, allow_nan=False, separators=(",", ":"))
        file.write(text.encode())


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder.

    Raises:
        CorruptFileError: The file is damaged, not a manifest, or of a later version.
        OSError: The file does not exist, or cannot be read.
    """
    path = folder / NAME
    with open_regular(path) as file:
        text = file.read(MAX_BYTES + 1)
    try:
        content = _as_content(text)
        if content["version"] <= VERSION:
            return _as_manifest(folder, content)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise CorruptFileError(f"{path} is damaged, or not the manifest of an archive: {error}") from error
    raise CorruptFileError(
        f"{path} has version {content['version']}, and this her-toolkit reads up to version {VERSION}; "
        "update her-toolkit"
    )


def with_unlisted_shards(folder: Path, manifest: Manifest) -> Manifest:
    """Return the manifest with the shards that were written after the manifest file.

    Raises:
        CorruptFileError: A shard is damaged, or belongs to another archive or to another place in it.
        OSError: A shard cannot be read.
    """
    shards = list(manifest.shards)
    while (path := shard_path(folder, len(shards))).exists():
        labels, checksum = read_labels(path)
        if (labels.get("archive"), labels.get("number")) != (manifest.archive, len(shards)):
            raise CorruptFileError(
                f"{path} belongs to another archive, or was renamed; move it to another folder"
            )
        try:
            shards.append(
                Shard(
                    _as_count("episodes", labels.get("episodes")),
                    _as_count("steps", labels.get("steps")),
                    checksum,
                )
            )
        except TypeError as error:
            raise CorruptFileError(f"{path} is damaged: {error}") from error
    return replace(manifest, shards=tuple(shards))


def require_shards(folder: Path, manifest: Manifest) -> None:
    """Raise CorruptFileError if a shard of the manifest is missing."""
    for number in range(len(manifest.shards)):
        path = shard_path(folder, number)
        if not path.exists():
            raise CorruptFileError(f"{path} is missing; restore it, or write to another folder")


def specs_of_source(source: Source) -> tuple[SpaceSpec, SpaceSpec]:
    """Return the leaves of the observations and actions of an environment.

    Raises:
        TypeError: A key is not a string.
        ValueError: A shard cannot store the elements of a space.
    """
    observations, actions = (
        SpaceSpec.of(name, space_from_json(getattr(source, name)))
        for name in ("observation_space", "action_space")
    )
    require_storable_space(observations)
    require_storable_space(actions)
    return observations, actions


def agreed_specs(
    folder: Path, manifest: Manifest, specs: tuple[SpaceSpec, SpaceSpec] | None
) -> tuple[SpaceSpec, SpaceSpec] | None:
    """Return the leaves of the observations and actions of all episodes; None if they are not known.

    Args:
        folder: Folder of the archive.
        manifest: Manifest of the archive.
        specs: Leaves of the environment whose episodes will be added, or None.

    Raises:
        CorruptFileError: The first shard is damaged.
        OSError: The first shard cannot be read.
        ValueError: The archive has no description of an environment, and its episodes have other leaves
            than ``specs``.
    """
    if manifest.source is not None:
        return specs_of_source(manifest.source)
    if not manifest.shards:
        return specs
    known = specs_of(read_shard(shard_path(folder, 0), manifest.shards[0].checksum))
    if specs is not None and not all(map(SpaceSpec.same_arrays, known, specs)):
        raise ValueError(
            f"the archive {folder} has episodes of other spaces than the environment; write to another folder"
        )
    return known


def _checksum(content: dict[str, Json]) -> str:
    canonical = json.dumps(content, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(canonical.encode()):08x}"


def _as_content(text: bytes) -> dict[str, Json]:
    # Returns the JSON of a manifest of any version.
    if len(text) > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes")
    content: dict[str, Json] = json.loads(text)
    checksum = content.pop("crc32")
    if content["kind"] != KIND:
        raise ValueError(f"expected the kind {KIND!r}, got {content['kind']!r}")
    if checksum != _checksum(content):
        raise ValueError("the checksum is wrong")
    _as_count("version", content["version"])
    return content


def _as_manifest(folder: Path, content: dict[str, Json]) -> Manifest:
    shards = []
    for number, entry in enumerate(content["shards"]):
        if entry["file"] != shard_path(folder, number).name:
            raise ValueError(f"shard {number} has the wrong name {entry['file']!r}")
        shards.append(
            Shard(
                _as_count("episodes", entry["episodes"]),
                _as_count("steps", entry["steps"]),
                int(entry["crc32"], 16),
            )
        )
    source = content["source"]
    if source is not None:
        source = Source(**source)
        if not isinstance(source.kwargs, dict) or not isinstance(source.kwargs_as_text, dict):
            raise TypeError("kwargs and kwargs_as_text of the environment must be dicts")
        space_from_json(source.observation_space)
        space_from_json(source.action_space)
    return Manifest(str(content["archive"]), source, dict(content["versions"]), tuple(shards))


def _as_count(name: str, value: Json) -> int:
    if type(value) is not int or not 0 <= value <= MAX_COUNT:
        raise TypeError(f"{name} must be an integer in [0, {MAX_COUNT}], got {value!r}")
    return value
