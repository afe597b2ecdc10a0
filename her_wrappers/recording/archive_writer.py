"""ArchiveWriter: collects episodes and writes them as shards, alone in its folder."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.files.atomic import Claim
from her_wrappers.recording.archive_folder import LOCK, make_folder, read_or_begin, require_ours
from her_wrappers.recording.episode_layout import EpisodeLayout, kind_of
from her_wrappers.recording.manifest import (
    Manifest,
    Shard,
    require_room,
    shard_path,
    with_unlisted_shards,
    write_manifest,
)
from her_wrappers.recording.shards import read_shard, require_writable, require_writable_space, write_shard
from her_wrappers.recording.space_json import space_from_json
from her_wrappers.recording.waiting import Waiting

if TYPE_CHECKING:
    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.recording.source import Source
    from her_wrappers.recording.waiting import Kind

SHARD_BYTES = 2**26
"""A shard is written once so many bytes have come together: images would fill the memory otherwise."""


@dataclass(frozen=True)
class _State:
    """What is in shards and what is not, which change together.

    Attributes:
        manifest: What is.
        pending: What is not.
    """

    manifest: Manifest
    pending: dict[Kind, Waiting]


class ArchiveWriter:
    """The one who writes to an archive.

    Args:
        folder: The archive; it is made where there is none.
        source: Where the episodes come from, if that is known.
        shard_steps: Steps of a shard.

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
        self._layout = _layout_of(source)
        self._told_of_failure = False
        make_folder(folder)
        require_ours(folder)
        self._claim = Claim(folder / LOCK, f"the archive {folder}")
        try:
            self._listed = read_or_begin(folder, source)
            self._state = _State(self._agree(self._listed, source), {})
        except BaseException:
            self._claim.release()
            raise

    @property
    def manifest(self) -> Manifest:
        """What is in shards."""
        return self._state.manifest

    @property
    def pending_episodes(self) -> int:
        """Number of episodes that are in none."""
        return sum(waiting.num_episodes for waiting in self._state.pending.values())

    @property
    def pending_steps(self) -> int:
        """Steps of these."""
        return sum(waiting.num_steps for waiting in self._state.pending.values())

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
        kind = kind_of(fitting)
        self._state.pending.setdefault(kind, Waiting()).add(fitting)
        limit = self._limit(kind)
        self._write(kind, at_least=limit)
        if self.pending_steps >= 2 * limit:  # of so many kinds that none fills a shard
            self.flush()

    def flush(self) -> None:
        """Write all episodes.

        Raises:
            OSError: They cannot be written; they are kept.
            RuntimeError: There are some, and this process is a fork of the one that opened the archive.
        """
        if self.pending_episodes:
            self._require_own_process()
            for kind in self._state.pending:
                self._write(kind, at_least=1)

    def close(self) -> None:
        """Write all episodes, list all shards, and let others write to the folder.

        Raises:
            OSError: The episodes cannot be written; they are kept, and the archive stays open.
        """
        if os.getpid() != self._process:
            return
        self._told_of_failure = True
        self.flush()
        if self.manifest != self._listed:
            self._list_shards()
        self._claim.release()

    def close_unheard(self) -> None:
        """Close where nobody can catch an error any more: warn of what is lost, unless that was said."""
        was_told = self._told_of_failure
        try:
            self.close()
        except Exception as error:
            self._claim.release()
            if not was_told:
                warnings.warn(
                    f"the archive {self._folder} loses {self.pending_episodes} episodes, which it could not "
                    f"write: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )

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

    def _agree(self, listed: Manifest, source: Source | None) -> Manifest:
        """Keep to what is there; return the manifest with all shards, and with the source, if it is new."""
        manifest = with_unlisted_shards(self._folder, listed)
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

    def _limit(self, kind: Kind) -> int:
        """Return the steps of a shard."""
        size = self._state.pending[kind].bytes_per_step()
        return max(1, min(self._shard_steps, int(SHARD_BYTES / max(1, size))))

    def _write(self, kind: Kind, *, at_least: int) -> None:
        """Write shards, as long as there are ``at_least`` so many steps of a kind."""
        while kind in self._state.pending and self._state.pending[kind].num_steps >= at_least:
            self._write_shard(kind)
            if len(self.manifest.shards) - len(self._listed.shards) > len(self._listed.shards) // 100:
                self._list_shards()

    def _write_shard(self, kind: Kind) -> None:
        """Write a shard. Until the last line nothing has happened: it would be written again."""
        limit = self._limit(kind)
        manifest, pending = self._state.manifest, dict(self._state.pending)
        waiting = pending.pop(kind).together()
        end = max(1, int(np.searchsorted(waiting.ends, limit)))
        episodes = waiting[:end]
        if end < len(waiting):
            pending[kind] = Waiting(waiting[end:])
        number = len(manifest.shards)
        labels = {
            "archive": manifest.archive,
            "number": number,
            "episodes": len(episodes),
            "steps": episodes.num_steps,
        }
        checksum = write_shard(shard_path(self._folder, number), episodes, labels)
        shard = Shard(len(episodes), episodes.num_steps, checksum)
        self._state = _State(replace(manifest, shards=(*manifest.shards, shard)), pending)

    def _list_shards(self) -> None:
        write_manifest(self._folder, self.manifest)
        self._listed = self.manifest


def _layout_of(source: Source | None) -> EpisodeLayout | None:
    if source is None:
        return None
    require_room(source)
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
