"""The benchmark of priorities rejects buffers with wrong probabilities."""

import numpy as np
import pytest

from benchmarks.replay_buffers.prioritized import OursPrioritized, check_priorities
from benchmarks.replay_task import make_episodes


class Uniform(OursPrioritized):
    """A buffer that ignores priorities."""

    def update(self, index, priorities):
        """Do nothing."""


def test_a_buffer_with_wrong_probabilities_raises_an_error():
    priorities = np.random.default_rng(0).exponential(size=1000)
    ours, uniform = OursPrioritized(1000), Uniform(1000)
    for buffer in (ours, uniform):
        buffer.fill(1000, make_episodes(20))
    assert check_priorities(ours, priorities) > 0.15
    with pytest.raises(RuntimeError):
        check_priorities(uniform, priorities)
