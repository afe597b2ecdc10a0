"""Files that are complete or absent, also if the process that writes them is killed."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator

PART = ".her-part"
"""Suffix of the name of a file while it is written."""

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


class InUseError(OSError):
    """Another writer, of this process or of another, is writing there."""


@contextlib.contextmanager
def replacement(path: str | os.PathLike[str]) -> Iterator[io.BufferedRandom]:
    """Write a file that replaces ``path`` when the block ends without an error.

    Until then the file has the name of ``path`` followed by ``.her-part``. A file that a killed process left
    there is deleted.

    Args:
        path: The file to write or replace; a link is followed.

    Yields:
        The file, empty, open for reading and writing.

    Raises:
        InUseError: Another writer is writing ``path``.
        IsADirectoryError: ``path`` is a folder.
        OSError: The file cannot be written.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"expected the path of a file, got the folder {target}")
    part = target.with_name(target.name + PART)
    file = _create(part)
    try:
        yield file
        file.flush()
        os.fsync(file.fileno())
        if sys.platform == "win32":
            file.close()  # Windows replaces no file that is open; elsewhere the lock is held to the end
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        file.close()
    sync_folder(target.parent)


def lock(file: IO[Any]) -> bool:
    """Take the lock of an open file, or return False if another open file of the same path has it.

    The system releases it when the file is closed, also when the process is killed.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


class Claim:
    """The right to be the only writer somewhere, until it is released or the process ends.

    Args:
        path: A file that is locked; it is made if it does not exist, and stays.
        what: Name of what is claimed, for the message.

    Raises:
        InUseError: Another writer has the claim, in this process or in another.
        OSError: The file cannot be made.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._file = path.open("a")
        if not lock(self._file):
            self._file.close()
            raise InUseError(
                f"{what} is in use: another writer is at work there; close it, or write elsewhere"
            )

    def release(self) -> None:
        """Let others claim it."""
        self._file.close()


def sync_folder(folder: Path) -> None:
    """Let the names in a folder survive a loss of power; Windows has no such call."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading, without waiting for pipes.

    Raises:
        OSError: The file does not exist, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"expected a file, got {path}, which is something else")
    return os.fdopen(descriptor, "rb")


def _create(part: Path) -> io.BufferedRandom:
    """Create and lock an empty file; content that is already there is never written to."""
    while True:
        try:
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666)
        except FileExistsError:
            _remove_leftover(part)
            continue
        file = os.fdopen(descriptor, "r+b")
        if lock(file) and _is_still(file, part):
            return file
        file.close()  # another writer took it for a leftover before it was locked


def _remove_leftover(part: Path) -> None:
    # Removes the file of a killed writer, unless another writer has it or it is something else.
    if part.is_symlink() or not part.is_file():
        raise OSError(f"{part} is not a file that an earlier writer left; remove it")
    try:
        file = os.fdopen(os.open(part, os.O_RDWR | NO_FOLLOW), "r+b")
    except FileNotFoundError:
        return
    with file:
        if not lock(file):
            raise InUseError(f"{part} is being written by another process or thread; wait until it is done")
        if sys.platform == "win32":
            file.close()  # Windows removes no file that is open
        if file.closed or _is_still(file, part):
            part.unlink(missing_ok=True)


def _is_still(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
