"""Atomic writing of files, and locks against a second writer."""

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
"""Suffix of the name of a file that is being written."""

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


class InUseError(OSError):
    """Another writer, in this process or in another one, is writing the same file or folder."""


@contextlib.contextmanager
def replacement(path: str | os.PathLike[str]) -> Iterator[io.BufferedRandom]:
    """Write a file that replaces ``path`` when the block ends without an error.

    Until then the name of the file is that of ``path`` followed by ``.her-part``. A file with this name that
    a killed process left is deleted.

    Args:
        path: File to write or replace; links are followed.

    Yields:
        An empty file, open for reading and writing.

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
            file.close()  # Windows cannot replace an open file; elsewhere the lock is held until the end
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        file.close()
    sync_folder(target.parent)


def lock(file: IO[Any]) -> bool:
    """Lock an open file; return False if the file is already locked through another open file object.

    The operating system releases the lock when the file is closed or the process is killed.
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
    """Lock that only one writer at a time can have, until `release` or the end of the process.

    Args:
        path: File to lock; it is created if it does not exist, and never deleted.
        name: Name of the locked object, for the message.

    Raises:
        InUseError: Another writer has the lock, in this process or in another one.
        OSError: The file cannot be created or opened.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._file = path.open("a")
        if not lock(self._file):
            self._file.close()
            raise InUseError(
                f"{name} is in use: another process or object writes to it; close that writer, or "
                "choose another path"
            )

    def release(self) -> None:
        """Release the lock."""
        self._file.close()


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk; does nothing on Windows."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading in binary mode, without waiting for the writer of a pipe.

    Args:
        path: Path of the file; links are followed.

    Raises:
        OSError: The file does not exist, cannot be read, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} must be a regular file, got a folder, pipe or device")
    return os.fdopen(descriptor, "rb")


def _create(part: Path) -> io.BufferedRandom:
    """Create and lock an empty file; an existing file is never written to."""
    while True:
        try:
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666)
        except FileExistsError:
            _remove_leftover(part)
            continue
        file = os.fdopen(descriptor, "r+b")
        if lock(file) and _is_still(file, part):
            return file
        file.close()  # another writer deleted it before it was locked


def _remove_leftover(part: Path) -> None:
    # Deletes the file of a killed writer, unless another writer has locked it or it is not a regular file.
    if part.is_symlink() or not part.is_file():
        raise OSError(
            f"{part} must be a regular file or must not exist, got a folder, link or device; delete it"
        )
    try:
        file = os.fdopen(os.open(part, os.O_RDWR | NO_FOLLOW), "r+b")
    except FileNotFoundError:
        return
    with file:
        if not lock(file):
            raise InUseError(f"{part} is being written by another process or thread; try again later")
        if sys.platform == "win32":
            file.close()  # Windows cannot delete an open file
        if file.closed or _is_still(file, part):
            part.unlink(missing_ok=True)


def _is_still(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
