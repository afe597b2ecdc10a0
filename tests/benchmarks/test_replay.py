"""The replay benchmark runs, judges promises by measurements, and refuses buffers that relabel wrongly."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import replay_claims
from benchmarks.replay_buffers.contender import check_relabeling
from benchmarks.replay_buffers.ours import Ours
from benchmarks.replay_claims import CPPRB, FLOOR, OURS, SB3, TENSORS
from benchmarks.replay_memory import IMAGES, SAME_IMAGES, VECTORS
from benchmarks.replay_task import make_episodes
from benchmarks.replay_work import Sampling
from tests.support.benchmark_commands import run_quick


def test_a_quick_run_measures_all_that_is_installed_and_names_what_is_not(tmp_path):
    printed = run_quick("replay", tmp_path / "replay.md")
    record = json.loads((tmp_path / "replay.json").read_text())
    page = (tmp_path / "replay.md").read_text()
    assert (tmp_path / "replay.png").stat().st_size > 0
    assert all(cost["median"] > 0 for cost in record["microseconds_a_batch"])
    assert {OURS, SB3} <= record["buffers"].keys()
    for name in record["buffers"]:
        assert page.count(f"\n| {name} |") == 4
    for name in record["missing"]:
        assert f"left out: {name} is not installed" in printed
        assert f"| {name} | not installed, and left out |" in page
    assert page.count("| no promise at this size |\n") == len(record["claims"])


STORED = (10_000, 1_000_000)


def costs(seconds):
    """Costs of drawing batches, alike for all sizes."""
    return {
        Sampling(name, rows, batch_size): np.full(3, cost)
        for name, cost in seconds.items()
        for rows in STORED
        for batch_size in (256, 1024)
    }


def verdicts(seconds):
    return [claim.verdict for claim in replay_claims.speed_claims(costs(seconds), *STORED)]


def test_promises_are_judged_by_the_measured_ratios():
    assert verdicts({OURS: 1, TENSORS: 2, SB3: 30, CPPRB: 3, FLOOR: 0.2}) == [
        "met",
        "MISSED",
        "met, and the hope",
        "met",
        "MISSED",
        "met, and the hope",
        "met",
        "met, and the hope",
    ]


def test_a_missing_peer_is_not_judged():
    assert verdicts({OURS: 1, FLOOR: 1})[:4] == ["not measured"] * 4


def test_bytes_are_judged_as_parts_of_stable_baselines3s():
    claims = replay_claims.memory_claims({VECTORS: (4, 10), IMAGES: (4, 10), SAME_IMAGES: (4, None)})
    assert [claim.verdict for claim in claims] == ["met", "MISSED", "not measured"]


class WrongReward(Ours):
    """Keeps the reward of the old goal."""

    def rows(self, batch):
        rows = super().rows(batch)
        return rows._replace(rewards=np.full_like(rows.rewards, -1))


class WrongGoal(Ours):
    """Relabels with goals from before the step."""

    def rows(self, batch):
        rows = super().rows(batch)
        return rows._replace(desired=np.where(rows.desired < 2, rows.desired - 1, rows.desired))


class WrongShare(Ours):
    """Returns original rows only."""

    def rows(self, batch):
        rows = super().rows(batch)
        return type(rows)(*(part[~batch.relabeled] for part in rows))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WrongReward, "other rewards"),
        (WrongGoal, "goals from before the step"),
        (WrongShare, "does not relabel four fifths"),
    ],
)
def test_a_buffer_that_relabels_wrongly_is_not_timed(kind, message):
    buffer = kind(1000)
    buffer.fill(1000, make_episodes(20))
    with pytest.raises(RuntimeError, match=message):
        check_relabeling(buffer)


def test_ours_is_filled_to_the_row_and_relabels_four_fifths():
    buffer = Ours(1000)
    buffer.fill(1000, make_episodes(20))
    assert len(buffer.buffer) == 1000
    assert check_relabeling(buffer) == pytest.approx(0.8, abs=0.005)


def test_a_quick_run_on_a_device_says_on_which(tmp_path):
    run_quick("replay_gpu", tmp_path / "replay_gpu.md", "--device", "cpu")
    page = (tmp_path / "replay_gpu.md").read_text()
    assert "those of a GPU are still to come" in page
    assert page.count("\n| ") == 2 + 2
    record = json.loads((tmp_path / "replay_gpu.json").read_text())
    assert record["facts"]["device"] == "the CPU"
    assert all(min(turns["microseconds"]) > 0 for turns in record["turns"])
