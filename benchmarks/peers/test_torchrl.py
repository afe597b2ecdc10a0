"""Tests of the statements about TorchRL in docs/comparison.md; they do not use our buffer."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")
data = pytest.importorskip("torchrl.data")
tensordict = pytest.importorskip("tensordict")

NEXT = ("next", "achieved_goal")


def reward(transitions):
    return (transitions[NEXT] == transitions["desired_goal"]).float() - 1


def make_buffer(size=1000, **options):
    return data.HERReplayBuffer(reward, storage=data.LazyTensorStorage(size), her_ratio=1.0, **options)


def episode(length, first=0):
    """Return an episode with the states first, first + 1, ..., which never reaches its goal."""
    states = torch.arange(first, first + length + 1, dtype=torch.float32)[:, None]
    done = torch.zeros(length, 1, dtype=torch.bool)
    done[-1] = True
    goals = torch.full((length, 1), -1.0)
    return tensordict.TensorDict(
        {
            "achieved_goal": states[:-1],
            "desired_goal": goals,
            "next": {
                "achieved_goal": states[1:],
                "desired_goal": goals.clone(),
                "reward": torch.full((length, 1), -1.0),
                "done": done,
                "terminated": done.clone(),
            },
        },
        batch_size=[length],
    )


def sampled(buffer, batch_size=1000):
    batch = buffer.sample(batch_size)
    return batch["achieved_goal"][:, 0], batch["desired_goal"][:, 0], batch


def test_by_default_the_last_state_is_never_a_goal():
    buffer = make_buffer(strategy="final")
    buffer.extend(episode(5))
    assert set(sampled(buffer)[1].tolist()) == {4}


def test_by_default_future_goals_include_the_state_before_the_step():
    buffer = make_buffer()
    buffer.extend(episode(5))
    states, goals, _ = sampled(buffer)
    assert (goals == states).float().mean() > 0.4


def test_a_full_storage_raises_when_it_is_extended_and_sampled():
    buffer = make_buffer(20, achieved_goal_key=NEXT)
    for number in range(4):
        buffer.extend(episode(5, first=100 * number))
        buffer.sample(10)
    buffer.extend(episode(5, first=400))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor"):
        buffer.sample(10)


def add_steps(buffer, length, first):
    for step in episode(length, first).unbind(0):
        buffer.add(step)


def share_of_goals_from_other_episodes(buffer):
    states, goals, _ = sampled(buffer)
    return (states // 100 != goals // 100).float().mean()


@pytest.mark.parametrize("options", [{}, {"achieved_goal_key": NEXT}])
@pytest.mark.parametrize("strategy", ["final", "episode"])
def test_an_episode_across_the_end_of_the_ring_gets_goals_of_another(strategy, options):
    buffer = make_buffer(12, strategy=strategy, **options)
    for number in range(3):
        add_steps(buffer, 5, first=100 * number)
    assert share_of_goals_from_other_episodes(buffer) > 0.1


def test_after_one_lap_without_sampling_goals_come_from_other_episodes():
    """TorchRL caches episode ends by storage length and cursor, which are the same after each full lap."""
    buffer = make_buffer(10, strategy="final", achieved_goal_key=NEXT)
    for number in range(2):
        add_steps(buffer, 5, first=100 * number)
    buffer.sample(1)
    add_steps(buffer, 3, first=200)
    add_steps(buffer, 7, first=300)
    assert share_of_goals_from_other_episodes(buffer) > 0.1


def test_a_relabeled_success_does_not_terminate():
    buffer = make_buffer(achieved_goal_key=NEXT)
    buffer.extend(episode(5))
    _, _, batch = sampled(buffer)
    early = (batch["next", "reward"] == 0)[:, 0] & (batch[NEXT] < 5)[:, 0]
    assert early.any()
    assert not batch["next", "terminated"][early].any()


def test_of_one_row_none_is_relabeled():
    buffer = data.HERReplayBuffer(reward, storage=data.LazyTensorStorage(100), her_ratio=0.8)
    buffer.extend(episode(5))
    assert {buffer.sample(1)["desired_goal"].item() for _ in range(100)} == {-1}


def test_randomness_is_torchs_global_generator():
    buffer = make_buffer()
    buffer.extend(episode(50))
    batches = []
    for _ in range(2):
        torch.manual_seed(3)
        batches.append(buffer.sample(50)["achieved_goal"])
    assert (batches[0] == batches[1]).all()
