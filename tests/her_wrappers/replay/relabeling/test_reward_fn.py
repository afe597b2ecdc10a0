"""Rewards that depend on the state or the action: the calls of ``reward_fn`` and their validation."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import Batch, EpisodeRecorder, HindsightReplayBuffer
from her_wrappers.trees import leaf_arrays
from tests.support.counting import ACTIONS, SPACE, counting_buffer, counting_episode
from tests.support.counting_rewards import effort_buffer, effort_episode, effort_reward


def test_the_reward_of_a_relabeled_row_uses_its_state_its_action_and_its_new_goal():
    buffer = effort_buffer()
    for number in range(5):
        buffer.add_episode(effort_episode(number, 9))
    batch = buffer.sample(500)
    number, t = batch.observations["observation"].T
    reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    assert reached[batch.relabeled].any()
    expected = reached - 1 - (number + t / 1000) / 8 - t / 64
    np.testing.assert_array_equal(batch.rewards, expected.astype(np.float32))


def test_reward_fn_gets_the_relabeled_rows_of_the_returned_batch():
    calls = []

    def reward(batch):
        calls.append(batch)
        return effort_reward(batch)

    buffer = effort_buffer(reward)
    buffer.add_episode(effort_episode(1, 20))
    calls.clear()
    batch = buffer.sample(60)
    [given] = calls
    assert isinstance(given, Batch)
    rows = batch.relabeled
    assert len(given) == rows.sum() > 40
    assert given.relabeled.all()
    for key in SPACE:
        np.testing.assert_array_equal(given.observations[key], batch.observations[key][rows])
        np.testing.assert_array_equal(given.next_observations[key], batch.next_observations[key][rows])
    for name in ("actions", "truncations", "index"):
        np.testing.assert_array_equal(getattr(given, name), getattr(batch, name)[rows])


@pytest.mark.parametrize("part", ["observations", "actions", "next_observations", "rewards", "index"])
def test_reward_fn_cannot_write_to_its_batch(part):
    def writing(batch):
        for array in leaf_arrays(getattr(batch, part)):
            array[...] = 0
        return effort_reward(batch)

    buffer = effort_buffer(writing)
    with pytest.raises(ValueError, match="read-only"):
        buffer.add_episode(effort_episode(0, 3))
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            lambda batch: -1.0,
            r"reward_fn must return numbers of shape \(3,\) for 3 steps, got float64 of shape \(\)",
        ),
        (lambda batch: np.zeros((len(batch), 1)), r"got float64 of shape \(3, 1\); reduce over"),
        (lambda batch: ["none"] * len(batch), "got <U4 of shape"),
        (lambda batch: np.full(len(batch), np.inf), "reward_fn must return finite numbers, got inf at row 0"),
    ],
)
def test_a_wrong_result_of_reward_fn_is_an_error_before_anything_is_stored(result, message):
    buffer = effort_buffer(result)
    with pytest.raises(ValueError, match=message):
        buffer.add_episode(effort_episode(0, 3))
    assert len(buffer) == 0


def test_recorded_rewards_are_compared_with_reward_fn():
    buffer = effort_buffer()
    with pytest.warns(
        UserWarning, match=r"step 1 of an episode has the reward -1, but reward_fn returns -1\.015"
    ):
        buffer.add_episode(counting_episode(0, 3))


def test_terminations_follow_the_goal_as_with_any_reward():
    buffer = effort_buffer()
    buffer.add_episode(effort_episode(0, 9))
    batch = buffer.sample(300)
    reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    np.testing.assert_array_equal(batch.terminations, reached)


def test_success_uses_a_reward_fn_of_two_values():
    buffer = effort_buffer(
        lambda batch: np.ceil(effort_reward(batch)), termination="success", compute_terminated=None
    )
    buffer.add_episode(counting_episode(0, 5))
    batch = buffer.sample(100)
    np.testing.assert_array_equal(batch.terminations, batch.rewards == 0)
    assert batch.terminations.any()


@pytest.mark.parametrize("form", ["list", "columns"])
def test_terminations_still_get_the_infos(form):
    def terminated(achieved, desired, infos):
        cost = infos["cost"] if form == "columns" else np.array([info["cost"] for info in infos])
        return cost > 2

    buffer = effort_buffer(compute_terminated=terminated, info_keys=["cost"], info_format=form)
    episode = effort_episode(0, 5)
    episode.infos["cost"] = np.arange(5.0)
    buffer.add_episode(episode)
    batch = buffer.sample(100)
    rows = batch.relabeled
    np.testing.assert_array_equal(batch.terminations[rows], batch.observations["observation"][rows, 1] > 2)


def test_compute_reward_and_reward_fn_together_are_an_error():
    message = "rewards must be computed in one way, got compute_reward and reward_fn; pass one"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        counting_buffer(reward_fn=effort_reward)
    with pytest.raises(TypeError, match=r"reward_fn must be a function of batch, got 5"):
        effort_buffer(5)


class Silent(gym.Env):
    """A goal environment without goal functions, with the rewards of `effort_reward`."""

    observation_space = SPACE
    action_space = ACTIONS

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self._observation(), {}

    def _observation(self):
        return {"observation": [0.0, self.t], "achieved_goal": [0.0, self.t], "desired_goal": [0.0, -1.0]}

    def step(self, action):
        reward = -1 - action[0] / 8 - self.t / 64
        self.t += 1
        return self._observation(), reward, False, self.t == 6, {}


def test_an_environment_without_compute_reward_may_have_a_reward_fn():
    with pytest.raises(ValueError, match=r"Silent has no compute_reward"):
        HindsightReplayBuffer.for_env(Silent())
    env = Silent()
    buffer = HindsightReplayBuffer.for_env(env, reward_fn=effort_reward, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.reset()
    for _ in range(6):
        recorder.step(np.array([0.5]))
    batch = buffer.sample(100)
    np.testing.assert_array_equal(batch.rewards, effort_reward(batch).astype(np.float32))


@pytest.mark.parametrize("options", [{}, {"compute_terminated": None}])
def test_for_env_takes_the_reward_fn_instead_of_the_environments_function(options):
    env = gym.make("her_envs:her_envs/PointReach-v0")
    buffer = HindsightReplayBuffer.for_env(
        env, reward_fn=lambda batch: -np.abs(batch.actions).sum(-1), seed=0, **options
    )
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.reset(seed=0)
    for _ in range(49):
        recorder.step(np.array([0.25, -0.5]))
    with pytest.warns(UserWarning, match="step 0 of an episode has the reward -1"):
        recorder.step(np.array([0.25, -0.5]))
    batch = buffer.sample(50)
    assert set(batch.rewards[batch.relabeled]) == {-0.75}
    near = env.unwrapped.compute_terminated(
        batch.next_observations["achieved_goal"], batch.observations["desired_goal"], {}
    )
    np.testing.assert_array_equal(batch.terminations[batch.relabeled], near[batch.relabeled])


def test_for_env_keeps_the_terminations_that_are_given_with_a_reward_fn():
    env = gym.make("her_envs:her_envs/PointReach-v0")
    buffer = HindsightReplayBuffer.for_env(
        env,
        reward_fn=lambda batch: -1.0 - 0 * batch.actions.sum(-1),
        compute_terminated=lambda achieved, desired, info: np.ones(len(achieved), bool),
        seed=0,
    )
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.reset(seed=0)
    for _ in range(50):
        recorder.step(np.zeros(2))
    batch = buffer.sample(50)
    assert batch.terminations[batch.relabeled].all()


def test_reward_fn_gets_trees_of_nested_spaces():
    space = spaces.Dict({
        "observation": spaces.Dict(place=SPACE["observation"], load=spaces.Discrete(3)),
        "achieved_goal": SPACE["achieved_goal"],
        "desired_goal": SPACE["desired_goal"],
    })
    action_space = spaces.Tuple([ACTIONS, spaces.Discrete(2)])

    def reward(batch):
        return -batch.actions[0][:, 0] - batch.observations["observation"]["load"]

    buffer = HindsightReplayBuffer(space, action_space, reward_fn=reward, termination="keep", seed=0)
    plain = counting_episode(3, 5)
    load, place = np.arange(6) % 3, plain.observations["observation"]
    buffer.add_episode(
        counting_episode(
            3,
            5,
            observations=plain.observations | {"observation": {"place": place, "load": load}},
            actions=(plain.actions, np.zeros(5, np.int64)),
            rewards=-plain.actions[:, 0] - load[:5],
        )
    )
    batch = buffer.sample(40)
    np.testing.assert_array_equal(batch.rewards, reward(batch).astype(np.float32))
