"""Errors of `HerReplayBuffer` for invalid arguments and steps."""

import copy

import numpy as np
import pytest
import stable_baselines3 as sb3
from stable_baselines3.common.envs import BitFlippingEnv

from her_wrappers.integrations.sb3 import HerReplayBuffer
from tests.support.counting import counting_episode
from tests.support.sb3_buffers import add, filled, make_buffer


def test_observations_without_goals_give_one_clear_error():
    with pytest.raises(ValueError, match="observation space must be a Dict with the keys 'observation',"):
        sb3.DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=HerReplayBuffer)


def test_without_an_environment_only_calls_that_need_it_raise():
    buffer = filled()
    buffer.sample(4)
    loaded = copy.deepcopy(buffer)
    for method, arguments in ((loaded.sample, [4]), (add, [loaded, [counting_episode(1, 5)]])):
        with pytest.raises(ValueError, match=r"this buffer has none; call set_env\(vec_env\)"):
            method(*arguments)
    assert (loaded.size(), len(loaded.her_buffer)) == (5, 5)
    loaded.set_env(buffer.env)
    assert loaded.sample(4).rewards.shape == (4, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": {}}, "observation/observation is missing|observation/.* is missing"),
        ({"action": np.zeros(7)}, r"action must have shape \(1, \d\), got \(7,\)"),
        ({"reward": np.zeros(2)}, r"rewards must be numbers of shape \(1,\), one per environment"),
    ],
)
def test_a_step_that_does_not_fit_raises_and_nothing_is_added(change, message):
    buffer, episode = make_buffer(), counting_episode(0, 5)
    add(buffer, [episode], steps=2)
    for t in (2, 3, 4):
        step = {
            "obs": {key: rows[t : t + 1] for key, rows in episode.observations.items()},
            "next_obs": {key: rows[t + 1 : t + 2] for key, rows in episode.observations.items()},
            "action": episode.actions[t : t + 1], "reward": episode.rewards[t : t + 1],
            "done": np.array([t == 4]), "infos": [{}],
        }  # fmt: skip
        if t == 2:
            with pytest.raises(ValueError, match=message):
                buffer.add(**step | change)
            assert buffer.pos == 2
        buffer.add(**step)
    assert [len(episode) for episode in buffer.her_buffer.episodes()] == [5]


@pytest.mark.parametrize("copies", [False, True])
def test_an_episode_with_an_invalid_number_does_not_take_others_with_it(copies):
    buffer = make_buffer(n_envs=4, copy_info_dict=copies, seed=0)
    episodes = [counting_episode(number, 5) for number in range(4)]
    episodes[1].rewards[2], episodes[2].rewards[4] = np.nan, np.inf
    with pytest.raises(ValueError, match="rewards must be finite"):
        add(buffer, episodes)
    assert [each.observations["observation"][0, 0] for each in buffer.her_buffer.episodes()] == [0, 3]
    add(buffer, [counting_episode(number, 5) for number in range(4, 8)])
    assert buffer.her_buffer.num_episodes == 6
    assert buffer.sample(8).rewards.isfinite().all()


def test_demonstrations_of_another_type_are_an_error_of_the_core_buffer():
    with pytest.raises(TypeError, match=r"demonstrations must be None or Demonstrations\(episodes\)"):
        make_buffer(demonstrations=[1])


def test_an_episode_that_is_cut_by_the_size_gives_one_warning():
    buffer = make_buffer(size=3)
    with pytest.warns(UserWarning, match="longer than buffer_size / n_envs = 3") as caught:
        add(buffer, [counting_episode(0, 8)])
    assert len(caught) == 1
    add(make_buffer(size=3), [counting_episode(0, 3)])


def test_a_loaded_buffer_refuses_another_environment():
    buffer = make_buffer()
    loaded = copy.deepcopy(buffer)
    with pytest.raises(ValueError, match=r"env must have 1 environments .*, got 2"):
        loaded.set_env(make_buffer(n_envs=2).env)
    with pytest.raises(ValueError, match="env must have 1 environments"):
        loaded.set_env(sb3.DQN("MultiInputPolicy", BitFlippingEnv(n_bits=3, continuous=False)).env)
    loaded.set_env(buffer.env)
