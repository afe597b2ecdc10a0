"""Manifest: the list of an archive's shards, and where their episodes come from.

It is a JSON file beside the shards, written anew, whole, now and then and at the end. A shard that is not in
it, as a kill may leave some, is found by its name and its label.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from her_wrappers.files.atomic import open_regular, replacement
from her_wrappers.files.reading import CorruptFileError
from her_wrappers.recording.shards import read_labels
from her_wrappers.recording.source import Source
from her_wrappers.recording.space_json import space_from_json

if TYPE_CHECKING:
    from her_wrappers.files.layout import Json

NAME = "manifest.json"
KIND = "her-toolkit archive of episodes"
VERSION = 1

MAX_BYTES = 2**23
"""A longer manifest would take longer than a second to read."""

MAX_SOURCE = 2**22
"""Bytes of it that say where the episodes come from."""

MAX_LISTED = 40_000
"""So many shards have room in the rest of it; those that follow are found one by one, which takes longer."""

WRITERS = ("her-toolkit", "gymnasium", "numpy")
"""Packages whose versions are noted."""


@dataclass(frozen=True)
class Shard:
    """One file of episodes.

    Attributes:
        episodes: Number of them.
        steps: Steps of all of them.
        checksum: Of the file.
    """

    episodes: int
    steps: int
    checksum: int


@dataclass(frozen=True)
class Manifest:
    """What is in an archive.

    Attributes:
        archive: A random name, which its shards carry too.
        source: Where the episodes come from, if that is known.
        versions: Of the packages that began the archive.
        shards: In the order in which they were written.
    """

    archive: str
    source: Source | None
    versions: dict[str, str]
    shards: tuple[Shard, ...] = ()

    @property
    def num_episodes(self) -> int:
        """Episodes of all shards."""
        return sum(shard.episodes for shard in self.shards)

    @property
    def num_steps(self) -> int:
        """Steps of all shards."""
        return sum(shard.steps for shard in self.shards)


def shard_path(folder: Path, number: int) -> Path:
    """Return where a shard stands."""
    return folder / f"shard-{number:06d}.npz"


def present_versions() -> dict[str, str]:
    """Return the versions of the packages that write archives."""
    return {name: version(name) for name in WRITERS}


def require_room(source: Source) -> None:
    """Refuse what a manifest has no room for.

    Raises:
        ValueError: It is too long.
    """
    size = len(json.dumps(asdict(source), allow_nan=False, separators=(",", ":")))
    if size > MAX_SOURCE:
        raise ValueError(
            f"the spaces and arguments of env take {size} bytes as JSON, at most {MAX_SOURCE} are kept; open "
            "the archive without env"
        )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it, whole or not at all; of more than `MAX_LISTED` shards the first ones.

    Raises:
        OSError: It cannot be written.
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
    """Read it.

    Raises:
        CorruptFileError: It is damaged, none of ours, or of a later version.
        OSError: There is none, or it cannot be read.
    """
    path = folder / NAME
    with open_regular(path) as file:
        text = file.read(MAX_BYTES + 1)
    try:
        return _as_manifest(folder, _as_content(text))
    except _LaterVersionError as error:
        raise CorruptFileError(f"{path} {error}") from error
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise CorruptFileError(f"{path} is damaged, or no manifest of an archive: {error}") from error


def with_unlisted_shards(folder: Path, manifest: Manifest) -> Manifest:
    """Add the shards that were written after the manifest was, by a process that was killed or is at work.

    Raises:
        CorruptFileError: There is one that is damaged, or of another archive.
        OSError: It cannot be read.
    """
    shards = list(manifest.shards)
    while (path := shard_path(folder, len(shards))).exists():
        labels, checksum = read_labels(path)
        if (labels.get("archive"), labels.get("number")) != (manifest.archive, len(shards)):
            raise CorruptFileError(f"{path} is of another archive; move it elsewhere")
        try:
            shards.append(Shard(_count(labels.get("episodes")), _count(labels.get("steps")), checksum))
        except TypeError as error:
            raise CorruptFileError(f"{path} is damaged: {error}") from error
    return replace(manifest, shards=tuple(shards))


class _LaterVersionError(ValueError):
    """The manifest is of a version that is not known here."""


def _checksum(content: dict[str, Json]) -> str:
    canonical = json.dumps(content, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(canonical.encode()):08x}"


def _as_content(text: bytes) -> dict[str, Json]:
    """Read the JSON, if it is ours and whole.

    Raises:
        _LaterVersionError: It is, of a later version.
        ValueError: It is not.
    """
    if len(text) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    content: dict[str, Json] = json.loads(text)
    checksum = content.pop("crc32")
    if content["kind"] != KIND:
        raise ValueError(f"it is of kind {content['kind']!r}")
    if checksum != _checksum(content):
        raise ValueError("it does not have its checksum")
    if _count(content["version"]) > VERSION:
        raise _LaterVersionError(
            f"has version {content['version']}, and this her-toolkit reads up to version {VERSION}; "
            "update her-toolkit"
        )
    return content


def _as_manifest(folder: Path, content: dict[str, Json]) -> Manifest:
    """Return what the JSON says.

    Raises:
        ValueError: It is not what it should be.
    """
    shards = []
    for number, entry in enumerate(content["shards"]):
        if entry["file"] != shard_path(folder, number).name:
            raise ValueError(f"shard {number} has the name {entry['file']!r}")
        shards.append(Shard(_count(entry["episodes"]), _count(entry["steps"]), int(entry["crc32"], 16)))
    source = content["source"]
    if source is not None:
        source = Source(**source)
        space_from_json(source.observation_space)
        space_from_json(source.action_space)
    return Manifest(str(content["archive"]), source, dict(content["versions"]), tuple(shards))


def _count(value: Json) -> int:
    """Return a whole number.

    Raises:
        TypeError: It is none.
    """
    if type(value) is not int or value < 0:
        raise TypeError(f"expected a whole number, got {value!r}")
    return value
