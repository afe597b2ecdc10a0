"""Under a memory limit of the operating system, a call has its full effect or none."""

from __future__ import annotations

import sys

import pytest

from tests.support.memory_limit import run_program

PROGRAM = """
import sys
import numpy as np
from her_wrappers import HindsightReplayBuffer
from tests.support.buffers import FUNCTIONS
from tests.support.counting import counting_buffer, counting_episode
from tests.support.memory_limit import memory_limit

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
    try:
        with memory_limit(room):
            calls[call]()
    except MemoryError:
        errors += 1
        assert len(buffer) == before
    buffer.verify()
    assert {len(episode) for episode in buffer.episodes()} == {1000}
    assert len(HindsightReplayBuffer.load(path, **FUNCTIONS)) in (200_000, len(buffer))
    batch = buffer.sample(64)
    t = batch.observations["observation"][:, 1]
    np.testing.assert_array_equal(batch.next_observations["observation"][:, 1], t + 1)
print(errors)
"""


@pytest.mark.arrays_only("torch raises an error of its own if memory runs out")
@pytest.mark.skipif(sys.platform != "linux", reason="the limit needs RLIMIT_AS and /proc of Linux")
@pytest.mark.parametrize("call", ["add_episodes", "sample", "save"])
def test_the_buffer_is_whole_after_a_memory_error_of_the_operating_system(call, tmp_path):
    assert int(run_program(PROGRAM, call, tmp_path / "buffer")) >= 1
