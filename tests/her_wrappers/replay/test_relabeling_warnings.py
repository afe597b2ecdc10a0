"""Warnings name the cause, and correct environments give none; see also test_situations."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, Mixture, VectorEpisodeRecorder
from her_wrappers.goals.autoreset import declared_mode
from tests.support.specimens.correct import CORRECT
from tests.support.specimens.reach import DenseReach, Reach
from tests.support.specimens.unusual import UNUSUAL


def messages(play, *args, **options):
    """Return the texts of the warnings of a function."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        play(*args, **options)
    return [str(each.message) for each in found]


def toward_goal(env, obs):
    return np.clip((obs["desired_goal"] - obs["achieved_goal"]) / 0.2, -1, 1).astype(np.float32)


def at_random(env, obs):
    return env.action_space.sample()


def record(env, episodes=20, policy=at_random, change=None, **options):
    """Record episodes of a single environment for a buffer, and return the buffer."""
    buffer = HindsightReplayBuffer.for_env(env, seed=0, **options)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.action_space.seed(0)
    for number in range(episodes):
        if change is not None and number == episodes // 2:
            change(env)
        obs, _ = recorder.reset(seed=number)
        done = False
        while not done:
            obs, _, terminated, truncated, _ = recorder.step(policy(env, obs))
            done = terminated or truncated
    return buffer


def record_rows(envs, steps=500, change=None, **options):
    """Record episodes of a vector environment for a buffer."""
    buffer = HindsightReplayBuffer.for_env(envs, seed=0, **options)
    recorder = VectorEpisodeRecorder(envs, buffer.add_episodes)
    recorder.action_space.seed(0)
    recorder.reset(seed=0)
    for t in range(steps):
        if change is not None and t == steps // 2:
            change(envs)
        *_, terminated, truncated, _ = recorder.step(recorder.action_space.sample())
        ended = terminated | truncated
        if ended.any() and declared_mode(envs) is AutoresetMode.DISABLED:
            recorder.reset(options={"reset_mask": ended})
    recorder.close()


# --- environments ---------------------------------------------------------------------------------


class NoEnd(Reach):
    """Success does not end an episode."""

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) & False


class EndsOnSuccess(gym.Wrapper):
    def step(self, action):
        obs, reward, _, truncated, info = self.env.step(action)
        return obs, reward, info["is_success"], truncated, info


class ReadsFlag(NoEnd):
    def compute_reward(self, achieved_goal, desired_goal, info):
        each = [info] if isinstance(info, dict) else info
        rewards = np.array([one["is_success"] - 1.0 for one in each], np.float32)
        return rewards[0] if isinstance(info, dict) else rewards


class Collision(NoEnd):
    """A collision costs 10, which only the info says."""

    collided = staticmethod(lambda info: info.get("collision", False))

    def inform(self, observation):
        return super().inform(observation) | {"collision": bool(abs(observation["achieved_goal"][0]) > 0.5)}

    def cost(self, info):
        each = [info] if isinstance(info, dict) else info
        costs = np.array([10.0 * self.collided(one) for one in each])
        return costs[0] if isinstance(info, dict) else costs

    def compute_reward(self, achieved_goal, desired_goal, info):
        return super().compute_reward(achieved_goal, desired_goal, info) - self.cost(info)


class NeedsCollision(Collision):
    collided = staticmethod(lambda info: info["collision"])


class MovingGoal(NoEnd):
    """The goal drifts in each step."""

    def move(self, action):
        self.goal = (self.goal + np.float32(0.02)).clip(-1, 1).astype(self.dtype)
        return super().move(action)


class NewGoal(NoEnd):
    """The goal changes in the middle of an episode, and the point continues from its place."""

    def move(self, action):
        if self.elapsed == 10:
            self.goal = self.draw_start()[1]
        return super().move(action)


class LastAction(gym.Wrapper):
    """The observation has the last action."""

    def __init__(self):
        super().__init__(NoEnd())
        both = spaces.Box(-2, 2, (4,), np.float32)
        self.observation_space = spaces.Dict({**self.env.observation_space, "observation": both})

    def reset(self, **options):
        obs, info = self.env.reset(**options)
        return self.add(obs, np.zeros(2)), info

    def step(self, action):
        obs, *others = self.env.step(action)
        return self.add(obs, action), *others

    def add(self, obs, action):
        return obs | {"observation": np.append(obs["observation"], action).astype(np.float32)}


class Radius(NoEnd):
    def __init__(self, radius=0.15):
        super().__init__()
        self.radius = radius

    def set_radius(self, radius):
        self.radius = radius


# --- warnings -------------------------------------------------------------------------------------


def of_goals(batch):
    after = batch.next_observations
    return NoEnd().compute_reward(after["achieved_goal"], after["desired_goal"], [{}] * len(batch))


def with_penalties(batch):
    return np.where(batch.rewards < -5, batch.rewards, of_goals(batch))


def proportional(env, obs):
    return np.clip(0.3 * (obs["desired_goal"] - obs["achieved_goal"]), -1, 1)


def long_last_action():
    """Most compared states are not the first of an episode."""
    return gym.wrappers.TimeLimit(LastAction(), 200)


SUCCESS = {"policy": toward_goal, "termination": "success"}
SITUATIONS = [  # environment, options of `record`, words of the only warning, or None without a warning
    (lambda: EndsOnSuccess(NoEnd()), SUCCESS, None),
    (NoEnd, {"policy": toward_goal}, None),
    (Reach, {"policy": toward_goal}, None),
    (DenseReach, {"policy": toward_goal}, None),
    (NoEnd, SUCCESS, "leave termination= out"),
    (Reach, SUCCESS, None),
    (NoEnd, SUCCESS | {"goal_selection_strategy": Mixture({"future": 1.0, "original": 0})}, None),
    (NoEnd, {"reward_fn": lambda batch: batch.rewards}, "reward_fn returns batch.rewards"),
    (NoEnd, {"reward_fn": of_goals}, None),
    (NoEnd, {"reward_fn": with_penalties}, None),
    (ReadsFlag, {"info_keys": ["is_success"]}, "compute_reward reads info 'is_success'"),
    (NoEnd, {"info_keys": ["is_success"]}, None),
    (Collision, {}, "pass info_keys= to the buffer; Stable-Baselines3: copy_info_dict=True"),
    (Collision, {"info_keys": ["collision"]}, None),
    (MovingGoal, {"episodes": 33}, None),
    (NewGoal, {"episodes": 33}, None),
    (long_last_action, {"policy": proportional}, None),
    (Radius, {"change": lambda env: env.set_radius(0.6)}, None),
]


@pytest.mark.parametrize(("make", "options", "words"), SITUATIONS)
def test_a_problem_gives_one_warning_and_correct_data_none(make, options, words):
    found = messages(record, make(), **options)
    assert len(found) == (words is not None)
    assert all(words in each for each in found)


@pytest.mark.parametrize(("kind", "count"), [(SyncVectorEnv, 0), (AsyncVectorEnv, 1)])
def test_a_change_that_the_local_copy_does_not_get_is_noticed(kind, count):
    change = lambda envs: envs.call("set_radius", 0.9)  # noqa: E731
    found = messages(record_rows, kind([Radius] * 2), change=change)
    assert len(found) == count
    assert all("a curriculum, set_attr()" in message for message in found)


# --- errors of functions --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["termination", "compute_terminated"])
def test_a_termination_function_that_returns_nothing_is_an_error_that_names_it(name):
    with pytest.raises(ValueError, match=f"{name} must return .* got None; add a return statement"):
        HindsightReplayBuffer.for_env(NoEnd(), **{name: lambda achieved, desired, info: None})


def test_a_termination_function_that_raises_is_named():
    def broken(achieved, desired, info):
        return achieved.nope if len(achieved) > 3 else achieved[:, 0] > 0

    with pytest.raises(RuntimeError) as caught:
        record(NoEnd(), termination=broken)
    assert "termination raised this" in "".join(caught.value.__cause__.__notes__)


def test_a_key_error_for_an_info_names_the_remedy():
    with pytest.raises(RuntimeError, match=r"reads info 'collision'.*info_keys=\['collision'\]"):
        record(NeedsCollision())
    env = NeedsCollision()
    env.cost = lambda info: 0.0
    buffer = record(env)
    del env.cost  # the function reads another info later
    with pytest.raises(ValueError, match="reads info 'collision'"):
        buffer.sample(32)


# --- correct environments -------------------------------------------------------------------------

NEEDS = {"CostInInfo": {"info_keys": ["cost"]}}


@pytest.mark.parametrize(
    "name", [name for name in CORRECT | UNUSUAL if name != "TextInObservation" and not name.endswith("}")]
)
def test_correct_environments_give_no_warning(name):
    env = (CORRECT | UNUSUAL)[name]()
    if isinstance(env, gym.wrappers.Autoreset):
        env = env.env
    if isinstance(env, gym.vector.VectorEnv):
        assert not messages(record_rows, env, steps=60)
    else:
        assert not messages(record, gym.wrappers.TimeLimit(env, 20), episodes=8, **NEEDS.get(name, {}))
