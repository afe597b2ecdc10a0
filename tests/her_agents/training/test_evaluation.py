"""Evaluation of policies in complete episodes."""

import gymnasium as gym
import numpy as np
import pytest

from her_agents.training.evaluation import evaluate
from her_envs import BitFlipping, TaskEnv


def flip_first_wrong_bit(observation):
    return int(np.argmax(observation["observation"] != observation["desired_goal"]))


class Scripted(gym.Env):
    """An environment with given success flags of the steps of each episode."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, flags):
        self.flags = iter(flags)

    def reset(self, *, seed=None, options=None):
        self.left = list(next(self.flags))
        return {}, {}

    def step(self, action):
        flag = self.left.pop(0)
        return {}, 0.0, False, not self.left, {"is_success": flag}


@pytest.mark.parametrize(
    ("flags", "rate", "once"),
    [([[0, 1, 0], [0, 0]], 0, 0.5), ([[0, 1, 1], [1, 0]], 0.5, 1), ([[0, 0, 0], [0]], 0, 0)],
)
def test_success_in_the_last_step_and_success_once_are_counted(flags, rate, once):
    result = evaluate(Scripted(flags), lambda observation: 0, episodes=2)
    assert (result.success_rate, result.success_once) == (rate, once)


def test_evaluate_returns_means_over_complete_episodes():
    env = TaskEnv(BitFlipping(n_bits=6))
    perfect = evaluate(env, flip_first_wrong_bit, episodes=20, seed=0)
    assert perfect.success_rate == 1
    assert perfect.mean_return == pytest.approx(1 - perfect.mean_length)
    constant = evaluate(TaskEnv(BitFlipping(n_bits=6)), lambda observation: 0, episodes=20, seed=0)
    assert (constant.success_rate < 0.2, 5 < constant.mean_length <= 6) == (True, True)
    assert evaluate(env, flip_first_wrong_bit, episodes=20, seed=0) == perfect
    with pytest.raises(ValueError, match="episodes must be an integer >= 1, got 0"):
        evaluate(env, flip_first_wrong_bit, episodes=0)
    with pytest.raises(ValueError, match="info must contain 'is_success' or 'success', got the keys"):
        evaluate(gym.make("CartPole-v1"), lambda observation: 0, episodes=1)
