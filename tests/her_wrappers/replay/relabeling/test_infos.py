"""Infos for reward functions, as a list of dicts or as columns."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer
from tests.support.counting import ACTIONS, SPACE, compute_reward, counting_buffer, counting_episode
from tests.support.counting_rewards import costs, episode_with_costs, reward_of_columns, reward_of_rows


@pytest.mark.parametrize(
    ("function", "form"), [(reward_of_rows, "list"), (reward_of_columns, "columns")], ids=["list", "columns"]
)
def test_the_reward_of_each_row_uses_the_info_of_its_step(function, form):
    buffer = counting_buffer(
        compute_reward=function, info_keys=["cost", "force"], info_format=form, buffer_size=40
    )
    for number, length in enumerate([3, 1, 8, 20, 11, 5, 12]):
        buffer.add_episode(episode_with_costs(number, length))
        batch = buffer.sample(64)
        episode, t = batch.observations["observation"].T
        reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
        np.testing.assert_allclose(batch.rewards, reached - 1.0 - (episode + t / 100), rtol=1e-6)


def test_compute_terminated_gets_infos_also_row_by_row():
    def scalar(achieved, desired, info):
        return bool(info["cost"] > 3.02)

    for form in ("list", "columns"):
        buffer = counting_buffer(
            compute_reward=reward_of_rows if form == "list" else reward_of_columns,
            compute_terminated=None,
            termination=scalar,
            info_keys=["cost", "force"],
            info_format=form,
        )
        buffer.add_episode(episode_with_costs(3, 6))
        with pytest.warns(UserWarning, match="called once for each row"):
            batch = buffer.sample(200)
        rows = batch.relabeled
        np.testing.assert_array_equal(
            batch.terminations[rows], batch.observations["observation"][rows, 1] > 2
        )


def test_columns_without_keys_are_an_empty_dict():
    calls = []

    def reward(achieved, desired, infos):
        calls.append(infos)
        return compute_reward(achieved, desired, infos)

    buffer = counting_buffer(compute_reward=reward, info_format="columns")
    buffer.add_episode(counting_episode(0, 4))
    buffer.sample(8)
    assert len(calls) >= 2
    assert all(infos == {} for infos in calls)


def test_add_stores_infos():
    buffer = counting_buffer(
        compute_reward=reward_of_columns, info_keys=["cost", "force"], info_format="columns"
    )
    episode = episode_with_costs(2, 5)
    for t in range(5):
        here, there = ({key: rows[i] for key, rows in episode.observations.items()} for i in (t, t + 1))
        info = {key: column[t] for key, column in episode.infos.items()}
        buffer.add(here, episode.actions[t], episode.rewards[t], there, False, t == 4, info)
    assert buffer.sample(10).rewards.max() <= -2


def test_a_recorder_adds_the_infos_of_info_keys():
    env = gym.make("her_envs:her_envs/Counting-v0", terminate_on_success=False)
    functions = {"compute_reward": lambda a, d, infos: infos["is_success"] - 1.0}
    buffer = HindsightReplayBuffer.for_env(
        env, info_keys=["is_success"], info_format="columns", termination="keep", **functions
    )
    recorder = EpisodeRecorder(env, buffer.add_episode, info_keys=["is_success"])
    recorder.reset(seed=0)
    for _ in range(10):
        recorder.step(0)
    assert (buffer.sample(100).rewards == 0).any()


def test_no_infos_are_stored_without_info_keys():
    plain, asking = counting_buffer(buffer_size=1000), counting_buffer(buffer_size=1000, info_keys=["cost"])
    for buffer in (plain, asking):
        buffer.add_episode(counting_episode(0, 3, infos=costs(0, 3)))
    assert asking.nbytes - plain.nbytes == 8 * 1000


@pytest.mark.parametrize(
    ("infos", "message"),
    [
        ({}, "infos/cost is missing in the episode; record it with EpisodeRecorder(info_keys=['cost'])"),
        ({"cost": np.array(["a", "b", "c"])}, "infos/cost of the episode must hold numbers, got dtype <U1"),
        ({"cost": np.zeros((3, 2))}, "infos/cost of the episode must have shape (3,), got (3, 2)"),
    ],
)
def test_infos_that_do_not_fit_are_an_error_and_nothing_is_stored(infos, message):
    buffer = counting_buffer(info_keys=["cost"])
    buffer.add_episode(counting_episode(0, 3, infos=costs(0, 3)))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        buffer.add_episode(counting_episode(1, 3, infos=infos))
    assert len(buffer) == 3


def test_an_unknown_format_is_an_error():
    with pytest.raises(ValueError, match="unknown info_format 'rows'; choose from 'list', 'columns'"):
        HindsightReplayBuffer(SPACE, ACTIONS, compute_reward=compute_reward, info_format="rows")


def test_integer_infos_may_become_floats():
    buffer = counting_buffer(
        compute_reward=lambda a, d, infos: infos["cost"],
        info_keys=["cost"],
        info_format="columns",
        termination="keep",
    )
    for number, cost in enumerate([np.zeros(3, int), np.array([True, False, True]), np.full(3, 0.5)]):
        buffer.add_episode(counting_episode(number, 3, infos={"cost": cost}, rewards=cost.astype(float)))
    batch = buffer.sample(300)
    number = batch.observations["observation"][:, 0].astype(int)
    t = batch.observations["observation"][:, 1].astype(int)
    costs = np.array([[0, 0, 0], [1, 0, 1], [0.5, 0.5, 0.5]])
    np.testing.assert_array_equal(batch.rewards, np.where(batch.relabeled, costs[number, t], batch.rewards))


def test_clear_resets_the_dtypes_of_infos():
    buffer = counting_buffer(info_keys=["cost"])
    buffer.add_episode(counting_episode(0, 3, infos={"cost": np.zeros(3)}))
    buffer.clear()
    buffer.add_episode(counting_episode(0, 3, infos={"cost": np.zeros((3, 2))}))
    assert len(buffer) == 3


def test_columns_cannot_be_written_to():
    def reward(achieved, desired, infos):
        infos["cost"][:] = 1
        return infos["cost"]

    buffer = counting_buffer(compute_reward=reward, info_keys=["cost"], info_format="columns")
    with pytest.raises(ValueError, match="read-only"):
        buffer.add_episode(counting_episode(0, 3, infos={"cost": np.zeros(3)}))
