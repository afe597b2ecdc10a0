"""The folder of an archive: made where there is none, and left alone where it is somebody else's."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from her_wrappers.files.atomic import PART
from her_wrappers.recording.manifest import NAME, Manifest, present_versions, read_manifest, write_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from her_wrappers.recording.source import Source

LOCK = "lock"


def make_folder(folder: Path) -> None:
    """Make the folder, if there is none.

    Raises:
        NotADirectoryError: There is a file, or a link that leads nowhere.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"expected the path of a folder, got the file {folder}")
    if folder.is_symlink() and not folder.exists():
        raise NotADirectoryError(f"expected the path of a folder, got the link {folder} to nowhere")
    folder.mkdir(parents=True, exist_ok=True)


def require_ours(folder: Path) -> None:
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


def read_or_begin(folder: Path, source: Source | None) -> Manifest:
    """Return the manifest that is there, or a new one."""
    if (folder / NAME).exists():
        return read_manifest(folder)
    manifest = Manifest(secrets.token_hex(8), source, present_versions())
    write_manifest(folder, manifest)
    return manifest
