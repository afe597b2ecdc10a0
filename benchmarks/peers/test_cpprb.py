"""Tests of the statements about cpprb in docs/comparison.md; they do not use our buffer."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")
cpprb = pytest.importorskip("cpprb")


def reward(next_state, action, goal):
    return (next_state == goal).all(-1) - 1.0


def make_buffer(size, **options):
    defaults = {"max_episode_len": 20, "reward_func": reward, "prioritized": False}
    columns = {"obs": {"shape": 1}, "act": {"shape": 1}, "next_obs": {"shape": 1}}
    return cpprb.HindsightReplayBuffer(size, columns, **defaults | options)


def add(buffer, length, first=0):
    states = np.arange(first, first + length + 1)[:, None]
    buffer.add(obs=states[:-1], act=np.zeros((length, 1)), next_obs=states[1:])
    buffer.on_episode_end(np.array([-1]))


def test_a_transition_keeps_the_goals_that_it_got_first():
    buffer = make_buffer(1000)
    add(buffer, 20)
    seen = {(row, goal) for _ in range(100) for row, goal in zip(*first_steps(buffer), strict=True)}
    assert len(seen) <= 5


def first_steps(buffer):
    batch = buffer.sample(100)
    first = batch["obs"][:, 0] == 0
    return batch["obs"][first, 0], batch["goal"][first, 0]


def with_windows(size):
    """Return a buffer that sums rewards over windows of three steps."""
    return cpprb.HindsightReplayBuffer(
        size,
        {"obs": {"shape": 1}, "act": {"shape": 1}, "next_obs": {"shape": 1}, "done": {}},
        max_episode_len=20,
        reward_func=reward,
        prioritized=False,
        Nstep={"size": 3, "gamma": 1.0, "rew": "rew", "next": "next_obs"},
    )


def test_windows_of_n_steps_reach_into_the_next_copy_of_a_truncated_episode():
    buffer = with_windows(1000)
    states = np.arange(11)[:, None]
    buffer.add(obs=states[:-1], act=np.zeros((10, 1)), next_obs=states[1:], done=np.zeros(10))
    buffer.on_episode_end(np.array([-1]))
    rows = buffer.get_all_transitions()
    assert (rows["next_obs"] < rows["obs"]).any()


def test_windows_of_n_steps_add_up_rewards_under_different_goals():
    buffer = with_windows(10_000)
    states = np.arange(11)[:, None]
    for _ in range(20):
        buffer.add(obs=states[:-1], act=np.zeros((10, 1)), next_obs=states[1:], done=np.arange(10) == 9)
        buffer.on_episode_end(np.array([-1]))
    rows = {key: column[:, 0] for key, column in buffer.get_all_transitions().items()}
    whole = (rows["goal"] >= 0) & (rows["next_obs"] == rows["obs"] + 3)
    within = (rows["obs"] < rows["goal"]) & (rows["goal"] <= rows["next_obs"])
    assert (rows["rew"][whole] != within[whole] - 3.0).any()


def test_goals_of_random_are_mostly_of_old_episodes():
    """cpprb samples the new goals once, when an episode ends, from all episodes so far."""
    buffer = make_buffer(100_000, strategy="random", additional_goals=4)
    for number in range(200):
        add(buffer, 5, first=100 * number)
    goals = buffer.get_all_transitions()["goal"]
    of_first_half = (goals[goals >= 0] < 10_000).mean()
    assert of_first_half > 0.75


def test_transitions_are_drawn_by_numpys_global_generator():
    buffer = make_buffer(1000)
    add(buffer, 20)
    batches = []
    for _ in range(2):
        np.random.seed(3)  # noqa: NPY002 - what the test is about
        batches.append(buffer.sample(50)["obs"])
    assert (batches[0] == batches[1]).all()


def test_its_goals_cannot_be_seeded_and_it_cannot_be_saved():
    assert "seed" not in inspect.signature(cpprb.HindsightReplayBuffer).parameters
    assert not {"save", "save_transitions", "load"} & set(dir(cpprb.HindsightReplayBuffer))


def with_priorities():
    buffer = cpprb.PrioritizedReplayBuffer(100, {"obs": {}})
    buffer.add(obs=np.arange(100.0))
    return buffer


@pytest.mark.parametrize(("priority", "row"), [(np.nan, 0), (-1.0, 0), (np.inf, 99)])
def test_one_bad_priority_spoils_all_draws(priority, row):
    buffer = with_priorities()
    buffer.update_priorities(np.array([0]), np.array([priority]))
    batch = buffer.sample(50)
    assert set(batch["indexes"].tolist()) == {row}
    assert np.isnan(batch["weights"]).all()


def test_the_next_batch_overwrites_the_index_of_the_last():
    buffer = with_priorities()
    first = buffer.sample(8)
    rows = first["obs"][:, 0].tolist()
    assert first["indexes"].tolist() == rows
    buffer.sample(8)
    assert first["indexes"].tolist() != rows
