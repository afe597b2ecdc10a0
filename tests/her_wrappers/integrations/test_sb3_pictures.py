"""Pictures (H, W, C), which SB3 converts to (C, H, W): functions get the layout of the environment."""

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecTransposeImage

from her_wrappers import Demonstrations, EpisodeRecorder
from tests.support.sb3_buffers import model_of

SHAPE = (40, 36, 3)


class Bars(gym.Env):
    """A bar moves along the picture's height. Only its red channel in the left half counts for the goal."""

    goals = "pictures"
    action_space = spaces.Discrete(2)

    def __init__(self):
        picture = spaces.Box(0, 255, SHAPE, np.uint8)
        goal = picture if self.goals == "pictures" else spaces.Box(0, 3, (1,), np.float32)
        self.observation_space = spaces.Dict(observation=picture, achieved_goal=goal, desired_goal=goal)

    def draw(self, row):
        picture = np.zeros(SHAPE, np.uint8)
        picture[10 * row : 10 * row + 10, :18, 0] = 255
        picture[:, 18:, 2] = self.np_random.integers(256, size=(40, 18))
        return picture

    def look(self, row, goal):
        place = self.draw if self.goals == "pictures" else lambda number: np.float32([number])
        return {"observation": self.draw(row), "achieved_goal": place(row), "desired_goal": place(goal)}

    def rows(self, goals):
        if self.goals != "pictures":
            return np.asarray(goals)[..., 0]
        assert goals.shape[-3:] == SHAPE
        assert goals.flags.c_contiguous
        return (goals[..., ::10, 0, 0] > 100).argmax(-1)

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (self.rows(achieved_goal) == self.rows(desired_goal)) - 1.0

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.rows(achieved_goal) == self.rows(desired_goal)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, (self.row, self.goal) = 0, self.np_random.integers(0, 4, 2)
        return self.look(self.row, self.goal), {}

    def step(self, action):
        self.steps += 1
        self.row = int(np.clip(self.row + (1 if action else -1), 0, 3))
        reached = self.row == self.goal
        return self.look(self.row, self.goal), float(reached) - 1, reached, self.steps == 8, {}


class Camera(Bars):
    """Pictures as observations, numbers as goals."""

    goals = "numbers"


def demonstrations(make):
    episodes = []
    env = EpisodeRecorder(make(), episodes.append)
    for seed in range(4):
        env.reset(seed=seed)
        while not any(env.step(int(env.unwrapped.row < env.unwrapped.goal))[2:4]):
            pass
    return Demonstrations(episodes, share=0.5)


def trained(env, make=Bars, **options):
    kwargs = {"termination": "recompute", "demonstrations": demonstrations(make)} | options
    model = model_of(sb3.DQN, env, replay_buffer_kwargs=kwargs, learning_starts=10**6)
    return model.learn(80).replay_buffer


def rows_of(pictures):
    return (pictures[:, 0, ::10, 0] > 100).argmax(-1)


ENVS = {
    "single": Bars,
    "transposed by hand": lambda: VecTransposeImage(DummyVecEnv([Bars])),
    "processes": lambda: SubprocVecEnv([Bars] * 2, start_method="fork"),
}


@pytest.mark.parametrize("name", ENVS)
def test_rewards_and_terminations_of_picture_goals_are_right(name):
    buffer = trained(ENVS[name]())
    batch = buffer.her_buffer.sample(300)
    reached = rows_of(batch.next_observations["achieved_goal"]) == rows_of(
        batch.next_observations["desired_goal"]
    )
    np.testing.assert_array_equal(batch.rewards, reached - 1.0)
    np.testing.assert_array_equal(batch.terminations[batch.relabeled], reached[batch.relabeled])
    assert batch.relabeled.any()
    assert batch.is_demonstration.any()
    buffer.env.close()


@pytest.mark.parametrize("make", [Bars, Camera])
def test_demonstrated_pictures_are_transposed_not_reshaped(make):
    given = demonstrations(make)
    buffer = trained(make(), make, demonstrations=given)
    rows = np.concatenate([each.observations["observation"] for each in given.episodes])
    seen = {row.transpose(2, 0, 1).tobytes() for row in rows}
    batch = buffer.her_buffer.sample(100)
    stored = batch.observations["observation"][batch.is_demonstration]
    assert len(stored) == 50
    assert all(picture.tobytes() in seen for picture in stored)


def test_pictures_that_do_not_fit_are_an_error():
    given = demonstrations(Bars)
    for episode in given.episodes:
        episode.observations["observation"] = episode.observations["observation"].swapaxes(1, 2)
    message = r"demonstration 0 .*'observation' must have rows of shape \(3, 40, 36\)"
    with pytest.raises(ValueError, match=message):
        trained(Bars(), demonstrations=given)


def test_a_reward_function_gets_the_layout_of_the_environment_and_replaces_compute_reward():
    actions = []

    def reward_fn(batch):
        assert batch.observations["observation"].shape[1:] == SHAPE
        actions.append(batch.actions)
        goals = [batch.next_observations[key] for key in ("achieved_goal", "desired_goal")]
        return Bars.compute_reward(Bars(), *goals, {})

    def forbidden(*_):
        raise AssertionError

    env = Bars()
    env.compute_reward = forbidden
    batch = trained(env, reward_fn=reward_fn, termination="keep").her_buffer.sample(200)
    after = batch.next_observations
    reached = rows_of(after["achieved_goal"]) == rows_of(after["desired_goal"])
    np.testing.assert_array_equal(batch.rewards, reached - 1.0)
    assert all(each.ndim == 1 and set(each) <= {0, 1} for each in actions)
