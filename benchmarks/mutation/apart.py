"""Work in processes of its own, some at a time, with limits that end what does not end by itself."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Name = TypeVar("Name")
MEMORY = 12 * 2**30  # bytes of address space: a mutant may ask for all there is


def side_by_side(
    works: Iterable[tuple[Name, Callable[[], list[str]]]], processes: int
) -> Iterator[tuple[Name, list[str] | None]]:
    """Do each piece of work in a copy of this process, and yield the answers as they come.

    Args:
        works: The pieces, and what to call them.
        processes: How many at a time.

    Yields:
        A piece's name and its answer, or None if a signal ended it, such as that of ``signal.alarm``.
    """
    running: dict[int, tuple[Name, Path]] = {}
    for name, work in works:
        if len(running) >= processes:
            yield _wait(running)
        folder = Path(tempfile.mkdtemp(prefix="apart-"))
        running[_start(work, folder)] = name, folder
    while running:
        yield _wait(running)


def _start(work: Callable[[], list[str]], folder: Path) -> int:
    pid = os.fork()
    if not pid:
        try:
            _alone(folder)
            (folder / "answer").write_text(json.dumps(work()))
        finally:
            os._exit(0)
    return pid


def _alone(folder: Path) -> None:
    os.setsid()  # so that it can be ended together with what it starts
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123  # three descriptors, not a file's content
        for descriptor in range(3):
            os.dup2(nothing.fileno(), descriptor)


def _wait(running: dict[int, tuple[Name, Path]]) -> tuple[Name, list[str] | None]:
    pid, status = os.wait()
    name, folder = running.pop(pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    answer = folder / "answer"
    found = json.loads(answer.read_text()) if answer.exists() else None
    shutil.rmtree(folder, ignore_errors=True)
    if found is None and not os.WIFSIGNALED(status):
        raise RuntimeError(f"{name}: the process ended without an answer")
    return name, found
