"""ArchiveWriter: collects episodes and writes them as shards, alone in its folder."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.files.atomic import PART, Claim
from her_wrappers.recording.episode_layout import EpisodeLayout, joined, kinds, nbytes
from her_wrappers.recording.manifest import (
    NAME,
    Manifest,
    Shard,
    present_versions,
    read_manifest,
    shard_path,
    with_unlisted_shards,
    write_manifest,
)
from her_wrappers.recording.shards import read_shard, require_writable, require_writable_space, write_shard
from her_wrappers.recording.space_json import space_from_json

if TYPE_CHECKING:
    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.recording.source import Source

LOCK = "lock"

SHARD_BYTES = 2**26
"""A shard is written once so many bytes have come together: images would fill the memory otherwise."""


class ArchiveWriter:
    """The one who writes to an archive.

    Args:
        folder: The archive; it is made where there is none.
        source: Where the episodes come from, if that is known.
        shard_steps: Steps of a shard.

    Attributes:
        manifest: What is in shards.
        pending_episodes: Number of episodes that are not.
        pending_steps: Steps of these.

    Raises:
        CorruptFileError: The archive is damaged.
        InUseError: Another writer is at work there.
        OSError: The folder is none, holds other things, or cannot be read or written.
        TypeError: The source has a space with keys that are no strings.
        ValueError: The archive comes from another environment, or the source has a space whose elements no
            shard holds.
    """

    def __init__(self, folder: Path, source: Source | None, shard_steps: int) -> None:
        self._folder = folder
        self._shard_steps = shard_steps
        self._process = os.getpid()
        self._pending: list[Episodes] = []
        self._layout = _layout_of(source)
        self.pending_episodes = 0
        self.pending_steps = 0
        _make_folder(folder)
        _require_ours(folder)
        self._claim = Claim(folder / LOCK, f"the archive {folder}")
        try:
            self.manifest = self._open(source)
        except BaseException:
            self._claim.release()
            raise

    def add(self, episodes: Episodes) -> None:
        """Take episodes, in copies, and write those that fill a shard.

        Raises:
            OSError: They cannot be written; they are kept, and tried again with the next.
            RuntimeError: This process is a fork of the one that opened the archive.
            TypeError: They hold what is neither numbers nor bools nor strings, or a key that is no string.
            ValueError: They have another layout than the archive's, or what no shard holds.
        """
        self._require_own_process()
        require_writable(episodes)
        layout = self._layout or EpisodeLayout.of_episodes(episodes)
        try:
            fitting = layout.fit(episodes)
        except ValueError as error:
            raise ValueError(f"the archive {self._folder} is of other spaces: {error}") from error
        self._layout = layout
        if self._pending and kinds(self._pending[0]) != kinds(fitting):
            self.flush()  # end to end, arrays become of one dtype
        self._pending.append(fitting)
        self.pending_episodes += len(fitting)
        self.pending_steps += fitting.num_steps
        limit = self._limit()
        if self.pending_steps >= limit:
            self._write(limit, at_least=limit)

    def flush(self) -> None:
        """Write all episodes.

        Raises:
            OSError: They cannot be written; they are kept.
            RuntimeError: There are some, and this process is a fork of the one that opened the archive.
        """
        if self._pending:
            self._require_own_process()
            self._write(self._limit(), at_least=1)

    def close(self) -> None:
        """Write all episodes, and let others write to the folder.

        Raises:
            OSError: They cannot be written; they are kept, and the archive stays open.
        """
        if os.getpid() == self._process:
            self.flush()
            self._claim.release()

    def _require_own_process(self) -> None:
        """Refuse to write what the parent of this process writes too.

        Raises:
            RuntimeError: This process is a fork of the one that opened the archive.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                f"the archive {self._folder} belongs to the process that opened it, not to its forks; "
                "open it there, or flush it before"
            )

    def _open(self, source: Source | None) -> Manifest:
        """Read the manifest and agree with it, or begin one."""
        if not (self._folder / NAME).exists():
            manifest = Manifest(secrets.token_hex(8), source, present_versions())
            write_manifest(self._folder, manifest)
            return manifest
        manifest = with_unlisted_shards(self._folder, read_manifest(self._folder))
        if manifest.source is not None:
            _require_same(self._folder, manifest.source, source)
        elif manifest.shards:
            self._adopt_layout(read_shard(shard_path(self._folder, 0), manifest.shards[0].checksum))
        self._layout = self._layout or _layout_of(manifest.source)
        return replace(manifest, source=manifest.source or source)

    def _adopt_layout(self, episodes: Episodes) -> None:
        """Keep to the layout of the episodes that are there.

        Raises:
            ValueError: The environment has another.
        """
        layout = EpisodeLayout.of_episodes(episodes)
        if self._layout is not None and self._layout != layout:
            raise ValueError(
                f"the archive {self._folder} holds episodes of other spaces than the environment's; "
                "write to another folder"
            )
        self._layout = layout

    def _limit(self) -> int:
        """Return the steps of a shard, judging their size by the first ones."""
        first = self._pending[0]
        return max(1, min(self._shard_steps, SHARD_BYTES * first.num_steps // max(1, nbytes(first))))

    def _write(self, limit: int, *, at_least: int) -> None:
        """Write shards of about ``limit`` steps, as long as there are ``at_least`` so many."""
        while self.pending_steps >= at_least:
            episodes = joined(self._pending)
            end = max(1, int(np.searchsorted(episodes.ends, limit)))
            self._pending = [episodes]
            self._write_shard(episodes[:end])
            self._pending = [episodes[end:]] if end < len(episodes) else []
            self.pending_episodes = sum(map(len, self._pending))
            self.pending_steps = sum(rest.num_steps for rest in self._pending)
            write_manifest(self._folder, self.manifest)

    def _write_shard(self, episodes: Episodes) -> None:
        number = len(self.manifest.shards)
        labels = {
            "archive": self.manifest.archive,
            "number": number,
            "episodes": len(episodes),
            "steps": episodes.num_steps,
        }
        checksum = write_shard(shard_path(self._folder, number), episodes, labels)
        shard = Shard(len(episodes), episodes.num_steps, checksum)
        self.manifest = replace(self.manifest, shards=(*self.manifest.shards, shard))


def _make_folder(folder: Path) -> None:
    """Make the folder, if there is none.

    Raises:
        NotADirectoryError: There is a file, or a link that leads nowhere.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"expected the path of a folder, got the file {folder}")
    if folder.is_symlink() and not folder.exists():
        raise NotADirectoryError(f"expected the path of a folder, got the link {folder} to nowhere")
    folder.mkdir(parents=True, exist_ok=True)


def _require_ours(folder: Path) -> None:
    """Refuse a folder of other things, before anything is put into it.

    Raises:
        CorruptFileError: It has a manifest that is damaged, or somebody else's.
        FileExistsError: It holds other things.
    """
    if (folder / NAME).exists():
        read_manifest(folder)
        return
    others = {path.name for path in folder.iterdir()} - {LOCK, NAME + PART}
    if others:
        raise FileExistsError(
            f"expected an archive or an empty folder, got {folder} with {min(others)!r} in it"
        )


def _layout_of(source: Source | None) -> EpisodeLayout | None:
    if source is None:
        return None
    made = {name: space_from_json(getattr(source, name)) for name in ("observation_space", "action_space")}
    for name, space in made.items():
        require_writable_space(name, space)
    return EpisodeLayout.of_spaces(**made)


def _require_same(folder: Path, known: Source, source: Source | None) -> None:
    """Refuse another environment than the archive's.

    Raises:
        ValueError: It is another.
    """
    if source is None:
        return
    for name in ("env_id", "observation_space", "action_space"):
        expected, got = getattr(known, name), getattr(source, name)
        if expected != got:
            if name != "env_id":
                expected, got = space_from_json(expected), space_from_json(got)
            raise ValueError(
                f"the archive {folder} holds episodes with {name} {expected}, got {got}; "
                "write to another folder"
            )
