"""Limits on the memory of a process, which the operating system sets; Linux only."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.killed import ROOT


@contextlib.contextmanager
def memory_limit(room: int) -> Iterator[None]:
    """Limit this process to ``room`` more bytes inside a ``with`` block.

    Use it in a new process, since a limit does not apply to free memory that an older process already has.
    """
    import resource  # noqa: PLC0415 - exists on POSIX only

    # Use the stack deeply: Linux ends a process whose stack must grow while the limit is reached.
    repr(functools.reduce(lambda nested, _: [nested], range(900), []))
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


PROGRAM = """
import json, sys
import numpy as np
from her_wrappers import HindsightReplayBuffer
from tests.support.counting import FUNCTIONS, counting_buffer, counting_episode
from tests.support.memory_limit import memory_limit

call, rooms, path = sys.argv[1:]
buffer = counting_buffer(buffer_size=50_000)
many = [counting_episode(number, 1000) for number in range(25)]
buffer.add_episodes(many)
buffer.save(path)
short = [counting_episode(number, 1) for number in range(25_000)] if call == "grow" else []
calls = {
    "add_episodes": lambda: buffer.add_episodes(many),
    "grow": lambda: buffer.add_episodes(short),
    "sample": lambda: buffer.sample(1_000_000),
    "save": lambda: buffer.save(path),
}
errors = 0
for room in json.loads(rooms):
    before = len(buffer)
    try:
        with memory_limit(room):
            calls[call]()
    except (MemoryError, OSError):  # the system's error if there is no memory to list a folder
        errors += 1
        assert len(buffer) == before
    assert {len(episode) for episode in buffer.episodes()} <= {1000, 1}
    assert len(HindsightReplayBuffer.load(path, **FUNCTIONS)) in (25_000, len(buffer))
    batch = buffer.sample(64)
    t = batch.observations["observation"][:, 1]
    np.testing.assert_array_equal(batch.next_observations["observation"][:, 1], t + 1)
print(errors)
"""


def count_low_limits(call: str, rooms: Iterable[int], path: Path) -> int:
    """Call a method of a large buffer under several limits [bytes]; return how many limits were too low.

    The buffer must be whole after each call, and its file at ``path`` the old or the new one.
    """
    command = [sys.executable, "-c", PROGRAM, call, json.dumps(list(rooms)), str(path)]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
