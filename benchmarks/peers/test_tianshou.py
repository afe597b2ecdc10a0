"""Tests of the statements about Tianshou in docs/comparison.md; they do not use our buffer."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")
data = pytest.importorskip("tianshou.data")


def reward(achieved, desired):
    return (achieved == desired).all(-1) - 1.0


def make_buffer(size=1000, future_k=8):
    return data.HERReplayBuffer(size, compute_reward_fn=reward, horizon=10, future_k=future_k)


def add(buffer, length, first=0, ends=True):
    def see(t):
        return data.Batch(
            observation=[first + t], achieved_goal=np.array([first + t]), desired_goal=np.array([-1])
        )

    for t in range(length):
        done = ends and t + 1 == length
        buffer.add(
            data.Batch(
                obs=see(t), act=0, rew=-1.0, terminated=done, truncated=False, obs_next=see(t + 1), info={}
            )
        )


def share(buffer, batch_size=10, batches=200):
    goals = [buffer.sample(batch_size)[0].obs.desired_goal for _ in range(batches)]
    return (np.concatenate(goals) >= 0).mean()


def test_a_buffer_of_one_episode_relabels_nothing():
    buffer = make_buffer()
    add(buffer, 10)
    assert share(buffer) == 0


def test_of_one_row_none_is_relabeled():
    buffer = make_buffer()
    for number in range(8):
        add(buffer, 10, first=100 * number)
    assert share(buffer, batch_size=1) == 0


def test_the_share_is_1_minus_1_over_k():
    buffer = make_buffer(future_k=4)
    for number in range(50):
        add(buffer, 10, first=100 * number)
    assert share(buffer, 200) == pytest.approx(0.75, abs=0.02)


def test_all_rows_of_an_episode_get_one_goal():
    buffer = make_buffer()
    for number in range(3):
        add(buffer, 10, first=100 * number)
    batch, _ = buffer.sample(300)
    for number in range(3):
        goals = batch.obs.desired_goal[batch.obs.achieved_goal // 100 == number]
        assert len(np.unique(goals)) == 1


def test_sampling_writes_into_the_storage():
    buffer = make_buffer()
    for number in range(8):
        add(buffer, 10, first=100 * number)
    assert (buffer[:80].obs.desired_goal == -1).all()
    buffer.sample(100)
    assert (buffer[:80].obs.desired_goal >= 0).any()


def test_a_relabeled_success_does_not_terminate():
    buffer = make_buffer()
    for number in range(8):
        add(buffer, 10, first=100 * number)
    batches = [buffer.sample(200)[0] for _ in range(20)]
    rewards, terminated, reached = (
        np.concatenate(parts)
        for parts in zip(
            *((batch.rew, batch.terminated, batch.obs_next.achieved_goal[:, 0]) for batch in batches),
            strict=True,
        )
    )
    early = (rewards == 0) & (reached % 100 < 10)
    assert early.any()
    assert not terminated[early].any()


def test_rows_are_drawn_by_a_generator_of_its_own_and_goals_by_the_global_one():
    batches = []
    for seed in (0, 1):
        buffer = make_buffer()
        for number in range(8):
            add(buffer, 10, first=100 * number)
        np.random.seed(seed)  # noqa: NPY002 - the subject of the test
        batches.append(buffer.sample(100)[0])
    states, goals = (
        [getattr(batch.obs, key) for batch in batches] for key in ("achieved_goal", "desired_goal")
    )
    assert (states[0] == states[1]).all()
    assert (goals[0] != goals[1]).any()
