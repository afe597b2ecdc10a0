"""Limits on the memory of a process, which the operating system sets; Linux only."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.killed import ROOT


@contextlib.contextmanager
def memory_limit(room: int) -> Iterator[None]:
    """Limit this process to ``room`` more bytes inside a ``with`` block; for programs of `run_program`."""
    _grow_stack()
    import resource  # noqa: PLC0415 - exists on POSIX only

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _grow_stack() -> None:
    """Use the stack deeply: Linux ends a process whose stack must grow while the limit is reached."""
    nested: list[object] = []
    for _ in range(900):
        nested = [nested]
    repr(nested)


def run_program(code: str, *arguments: object) -> str:
    """Run a program in a new process and return its output.

    A limit needs a new process, since it does not apply to free memory that an older process already has.
    """
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
