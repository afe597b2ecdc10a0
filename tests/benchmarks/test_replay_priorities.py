"""The benchmark of priorities: it judges its requirements, and rejects buffers with wrong probabilities."""

import numpy as np
import pytest

from benchmarks.replay_buffers.contender import Sampling
from benchmarks.replay_buffers.prioritized import OursPrioritized, check_priorities
from benchmarks.replay_priorities import BATCH_SIZE, requirements
from benchmarks.replay_task import make_episodes


class Theirs(OursPrioritized):
    name = "theirs"


@pytest.mark.parametrize(("ours", "met"), [(1.3, [False, False]), (1.1, [True, False]), (0.7, [True, True])])
def test_requirements_are_judged_by_the_measured_ratio(ours, met):
    """The requirement of the larger buffer is the first."""
    costs = {
        Sampling(f"{name}: sample and update", stored, BATCH_SIZE): np.full(3, cost)
        for name, cost in (("her-toolkit", ours), ("theirs", 1.0))
        for stored in (100, 1_000)
    }
    found = requirements(costs, (100, 1_000), [OursPrioritized, Theirs])
    assert [requirement.is_met for requirement in found] == met


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
