"""Atomic replacement of files, and locks against a second writer."""

import contextlib
import glob
import io
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

PART = ".her-part"  # suffix of the name of a file that is being written
LEFTOVER_AGE = 3600.0  # seconds without a change after which an unfinished file is deleted


class InUseError(OSError):
    """Another writer, in this process or in another one, writes to the same folder."""


@contextlib.contextmanager
def replacement(path: str | os.PathLike[str]) -> Iterator[io.BufferedRandom]:
    """Yield an empty file, which replaces the file (or target of a link) ``path`` unless an error occurs."""
    target = Path(os.path.realpath(path))
    if target.is_dir() or target.is_char_device() or target.is_block_device():  # root could replace /dev/null
        kind = IsADirectoryError if target.is_dir() else OSError
        raise kind(f"cannot write {target}, since it is a folder or device; choose another path")
    name = target.name[:200]  # file names have at most 255 characters
    leftovers = target.parent.glob(f"{glob.escape(name)}.????????{PART}") if target.exists() else ()
    for leftover in leftovers:
        with contextlib.suppress(OSError):  # for example, another writer has just renamed it
            if time.time() - leftover.lstat().st_mtime > LEFTOVER_AGE:
                leftover.unlink()
    part = target.with_name(f"{name}.{secrets.token_hex(4)}{PART}")
    try:
        with part.open("x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename in {None, str(part)}:
            error.filename = os.fspath(path)  # which the user knows
        part.unlink(missing_ok=True)
        raise
    if os.name != "nt":  # write the new name to the disk too
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_lock(path: Path) -> BaseFileLock:
    """Return a lock that uses the lock file ``path``; it is not acquired yet, see `acquire_lock`."""
    return FileLock(path, thread_local=False)


def acquire_lock(lock: BaseFileLock, name: str) -> None:
    """Acquire a lock, which the caller has stored, or raise InUseError: ``name`` is in use."""
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InUseError(
            f"{name} is in use: another process, or another object in this process, has it open for writing; "
            "close it there, or choose another path"
        ) from error


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading; raise OSError for a folder, device or pipe, without blocking."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} must be a regular file, but is a folder, pipe or device")
    return os.fdopen(descriptor, "rb")
