"""The benchmark of priorities runs, and refuses buffers that draw by other odds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.replay_buffers.prioritized import OursPrioritized, check_priorities
from benchmarks.replay_priorities import BATCH_SIZE, claims
from benchmarks.replay_task import make_episodes
from benchmarks.replay_work import Sampling
from tests.support.benchmark_commands import run_quick


def test_a_quick_run_measures_all_that_is_installed(tmp_path):
    run_quick("replay_priorities", tmp_path / "a.md")
    page = (tmp_path / "a.md").read_text()
    assert page.count("\n| her-toolkit |") == 2
    assert "met" not in page.partition("## A batch")[0].lower()


class Theirs(OursPrioritized):
    name = "theirs"


@pytest.mark.parametrize(
    ("ours", "verdicts"),
    [(1.3, ["MISSED", "MISSED"]), (1.1, ["met", "MISSED"]), (0.7, ["met, and the hope", "met"])],
)
def test_promises_are_judged_by_the_measured_ratio(ours, verdicts):
    """That of the larger buffer comes first."""
    costs = {
        Sampling(f"{name}: sample and update", stored, BATCH_SIZE): np.full(3, cost)
        for name, cost in (("her-toolkit", ours), ("theirs", 1.0))
        for stored in (100, 1_000)
    }
    found = claims(costs, (100, 1_000), [OursPrioritized, Theirs])
    assert [claim.verdict for claim in found] == verdicts


class Uniform(OursPrioritized):
    """Takes priorities and forgets them."""

    def update(self, index, priorities):
        """Do nothing."""


def test_a_buffer_that_draws_by_other_odds_is_not_timed():
    priorities = np.random.default_rng(0).exponential(size=1000)
    for kind in (OursPrioritized, Uniform):
        buffer = kind(1000)
        buffer.fill(1000, make_episodes(20))
        if kind is Uniform:
            with pytest.raises(
                RuntimeError, match=r"her-toolkit draws the likeliest tenth in 0\.\d+, not 0\.\d+"
            ):
                check_priorities(buffer, priorities)
        else:
            assert check_priorities(buffer, priorities) > 0.15
