"""The benchmark of replay buffers: it judges its requirements, and rejects buffers that relabel wrongly."""

import numpy as np
import pytest

from benchmarks import replay
from benchmarks.replay import CPPRB, FLOOR, OURS, SB3, TENSORS
from benchmarks.replay_buffers.contender import Sampling, check_relabeling
from benchmarks.replay_buffers.ours import Ours
from benchmarks.replay_task import make_episodes

STORED = (10_000, 1_000_000)


def test_requirements_are_judged_by_the_measured_ratios():
    costs = {
        Sampling(name, rows, batch_size): np.full(3, seconds)
        for name, seconds in {OURS: 1, TENSORS: 2, SB3: 30, CPPRB: 3, FLOOR: 0.2}.items()
        for rows in STORED
        for batch_size in (256, 1024)
    }
    met = [requirement.is_met for requirement in replay.speed_requirements(costs, *STORED)]
    assert met == [True, False, True, True, False, True, True, True]


class WrongReward(Ours):
    """A buffer whose relabeled rows keep the reward of the old goal."""

    def columns(self, batch):
        rows = super().columns(batch)
        return rows._replace(rewards=np.full_like(rows.rewards, -1))


class WrongGoal(Ours):
    """A buffer that relabels with goals that were achieved before the step."""

    def columns(self, batch):
        rows = super().columns(batch)
        return rows._replace(desired=np.where(rows.desired < 2, rows.desired - 1, rows.desired))


class WrongShare(Ours):
    """A buffer whose batches have no relabeled rows."""

    def columns(self, batch):
        rows = super().columns(batch)
        return type(rows)(*(column[~batch.relabeled] for column in rows))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WrongReward, "other rewards"),
        (WrongGoal, "goals from before the step"),
        (WrongShare, "does not relabel four fifths"),
    ],
)
def test_a_buffer_that_relabels_wrongly_raises_an_error(kind, message):
    buffer, ours = kind(1000), Ours(1000)
    for each in (buffer, ours):
        each.fill(1000, make_episodes(20))
    with pytest.raises(RuntimeError, match=message):
        check_relabeling(buffer)
    assert check_relabeling(ours) == pytest.approx(0.8, abs=0.005)
