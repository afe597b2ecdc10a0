"""Files that are there whole or not at all, whatever happens to the process that writes them."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator

PART = ".part"
"""What a file is called, behind its name, while it is written."""


class InUseError(OSError):
    """Another writer, of this process or of another, is at work there."""


@contextlib.contextmanager
def replacement(path: str | os.PathLike[str]) -> Iterator[io.BufferedRandom]:
    """Write a file that takes the place of ``path`` when the block ends without an error.

    Until then it stands beside ``path``, with ``.part`` behind its name. What a killed process leaves there
    harms nobody, and the next writer begins on it anew.

    Args:
        path: The file to write or replace; a link is followed.

    Yields:
        The file, empty, open for reading and writing.

    Raises:
        InUseError: Another writer is at work on ``path``.
        IsADirectoryError: There is a folder at ``path``.
        OSError: It cannot be written.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"expected the path of a file, got the folder {target}")
    part = target.with_name(target.name + PART)
    file = _claim(part)
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
    """Take the lock of an open file, or return False where another open file of the same path has it.

    The system gives it back when the file is closed, also when the process is killed.
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
    """The right to be the only one who writes somewhere, until it is released or the process ends.

    Args:
        path: A file that stands for it; it is made, and stays.
        what: What is claimed, for the message.

    Raises:
        InUseError: Another has it, in this process or in another.
        OSError: The file cannot be made.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._file = path.open("a")
        if not lock(self._file):
            self._file.close()
            raise InUseError(
                f"{what} is in use: another writer is at work there; close it, or write elsewhere"
            )
        _claims.add(self)

    def release(self) -> None:
        """Let others have it."""
        self._file.close()


_claims: weakref.WeakSet[Claim] = weakref.WeakSet()


def _release_all() -> None:
    for claim in list(_claims):
        claim.release()


if hasattr(os, "register_at_fork"):
    # Workers that outlive their killed parent would keep its claims.
    os.register_at_fork(after_in_child=_release_all)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlast a loss of power; Windows has no such call."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading; what is no file, such as a pipe, is not waited for.

    Raises:
        OSError: There is no such file.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"expected a file, got {path}, which is something else")
    return os.fdopen(descriptor, "rb")


def _claim(part: Path) -> io.BufferedRandom:
    """Open and empty the file for our writing only.

    Raises:
        InUseError: Another writer has it.
    """
    while True:
        file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        if not lock(file):
            file.close()
            raise InUseError(f"{part} is being written by another process or thread; wait until it is done")
        if _is_still(file, part):
            file.truncate()
            return file
        file.close()  # its owner has renamed it between our opening and our locking it


def _is_still(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
