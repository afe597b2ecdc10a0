"""With a limit on memory that the operating system sets, a call has its whole effect or none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import os, resource, sys
import numpy as np
from her_wrappers import HindsightReplayBuffer
from tests.support.buffers import FUNCTIONS
from tests.support.counting import counting_buffer, counting_episode

def limit(room):
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))

call, path = sys.argv[1:]
buffer = counting_buffer(buffer_size=400_000)
many = [counting_episode(number, 1000) for number in range(200)]
buffer.add_episodes(many)
buffer.save(path)
calls = {
    "add_episodes": lambda: buffer.add_episodes(many),
    "sample": lambda: buffer.sample(2_000_000),
    "save": lambda: buffer.save(path),
}
errors = 0
for room in (2**18, 2**20, 2**22, 2**23, 2**24, 2**25):
    before = len(buffer)
    limit(room)
    try:
        calls[call]()
    except MemoryError:
        errors += 1
        assert len(buffer) == before
    limit(2**33)
    buffer.verify()
    assert {len(episode) for episode in buffer.episodes()} == {1000}
    assert len(HindsightReplayBuffer.load(path, **FUNCTIONS)) in (200_000, len(buffer))
    batch = buffer.sample(64)
    t = batch.observations["observation"][:, 1]
    np.testing.assert_array_equal(batch.next_observations["observation"][:, 1], t + 1)
print(errors)
"""


@pytest.mark.arrays_only("torch raises its own error where its memory ends")
@pytest.mark.skipif(sys.platform != "linux", reason="the limit needs RLIMIT_AS and /proc of Linux")
@pytest.mark.parametrize("call", ["add_episodes", "sample", "save"])
def test_the_buffer_is_whole_after_a_memory_error_of_the_operating_system(call, tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, call, tmp_path / "buffer"],
        cwd=ROOT,
        env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"},  # freed memory returns to the system
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= 1
