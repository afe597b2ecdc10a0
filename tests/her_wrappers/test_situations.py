"""Situations in which recorded episodes do not fit to relabeling: the buffer is right, or it warns or raises.

In this task, achieved goal, action and desired goal determine the correct transition.
"""

import itertools
import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, VectorEpisodeRecorder
from tests.support.specimens.reach import SQUARE, Reach, from_infos, goal_dict

STEPS = 600
RADIUS, NEW_RADIUS = 0.2, 0.6
SITUATIONS = {
    "ends at goals": "episodes end at goals, but compute_terminated is always False",
    "hidden ends": "a wrapper hides terminations",
    "truncated at goals": "episodes are truncated at goals",
    "infos": "the reward needs an info, and info_keys is empty",
    "hidden reset": "a reset in the middle of an episode",
    "autoreset": "the wrapper Autoreset resets the environment",
    "evaluation": "other code resets the environment between two steps",
    "goal in observation": "the observation has the distance to the goal",
    "reused arrays": "the environment returns the same arrays in every step",
    "one reused array": "the achieved goal is the same array in every step",
    "changed radius": "the radius of success changes between episodes",
    "stacked frames": "goals are stacked",
    "shared object": "the slots of a vector environment are one object",
}


class Task(Reach):
    """A point in a square moves to a goal within 20 steps; a situation changes one property."""

    may_start_solved = True

    def __init__(self, situation):
        self.situation, self.radius = situation, RADIUS
        super().__init__()
        keys = {"reused arrays": list(self.observation_space), "one reused array": ["achieved_goal"]}
        self.arrays = {key: np.zeros(2, np.float32) for key in keys.get(situation, ())}

    def make_space(self):
        wide = self.situation == "goal in observation"
        return goal_dict(SQUARE, spaces.Box(-3, 3, (4,)) if wide else SQUARE)

    def observe(self):
        new = super().observe() | {"observation": view(self.situation, self.position, self.goal).copy()}
        for key, array in self.arrays.items():
            array[:] = new[key]
        return new | self.arrays

    def step(self, action):
        *result, truncated, info = super().step(action)
        truncates = self.situation == "truncated at goals" and self.is_success(self.position, self.goal)
        return *result, bool(truncated or truncates), info

    def move(self, action):
        if self.situation == "hidden reset" and self.elapsed == 9:
            self.change_place()
            return self.position
        return moved(self.position, action)

    def change_place(self):
        self.position, self.goal = self.draw_start()

    def inform(self, observation):
        return {"effort": effort(self.position)}

    def terminated(self, observation, info):
        reached = bool(self.is_success(self.position, self.goal))
        return reached and self.situation not in {"truncated at goals", "hidden ends"}

    def compute_reward(self, achieved_goal, desired_goal, info):
        reward = super().compute_reward(achieved_goal, desired_goal, info)
        return reward - (from_infos("effort", info, 0.0) if self.situation == "infos" else 0)

    def compute_terminated(self, achieved_goal, desired_goal, info):
        never = self.situation in {"ends at goals", "truncated at goals"}
        return self.is_success(achieved_goal, desired_goal) & (not never)

    def change(self, t):
        if self.situation == "changed radius" and t > STEPS // 5:
            self.radius = NEW_RADIUS
        if self.situation == "evaluation":
            self.change_place()


def moved(position, action):
    return np.clip(position + 0.2 * np.clip(action, -1, 1), -1, 1).astype(np.float32)


def distance(some, others):
    return np.linalg.norm(some - others, axis=-1)


def effort(position):
    return 5.0 * (np.abs(position[..., 0]) > 0.5)


def view(situation, position, goal):
    return np.concatenate([position, goal - position], -1) if situation == "goal in observation" else position


def make(situation):
    env = Task(situation)
    if situation == "stacked frames":
        return gym.wrappers.FrameStackObservation(env, 3)
    return gym.wrappers.Autoreset(env) if situation == "autoreset" else env


def record(situation, by_add=False):
    """Record one environment, with a recorder or by `add`."""
    env = make(situation)
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    add = buffer.add if by_add else lambda *_: None
    env = env if by_add else EpisodeRecorder(env, buffer.add_episode)
    obs, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for t in range(STEPS):
        if t % 50 == 49:  # within an episode of 20 steps
            env.unwrapped.change(t)
        action = env.action_space.sample()
        after, reward, terminated, truncated, info = env.step(action)
        add(obs, action, reward, after, terminated, truncated, info)
        obs = env.reset()[0] if (terminated or truncated) and situation != "autoreset" else after
    return buffer


def record_vector(situation):
    one = make(situation)
    makers = [(lambda: one) if situation == "shared object" else (lambda: make(situation))] * 2
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    buffer = HindsightReplayBuffer.for_env(envs, seed=0)
    recorder = VectorEpisodeRecorder(envs, buffer.add_episodes)
    recorder.reset(seed=0)
    recorder.action_space.seed(0)
    for t in range(STEPS // 2):
        if t % 50 == 49:
            envs.call("change", t)
        recorder.step(recorder.action_space.sample())
    return buffer


def wrong_parts(buffer, situation):
    """Return the names of the parts in which sampled transitions differ from the correct ones."""
    assert buffer.num_episodes >= 20
    batch = buffer.sample(5_000)
    before, after = batch.observations, batch.next_observations
    goal, achieved = after["desired_goal"], moved(before["achieved_goal"], batch.actions)
    changes = situation == "changed radius"
    at_goal = distance(achieved, goal) < (NEW_RADIUS if changes else RADIUS)
    judged = batch.relabeled | (not changes)  # others have the rewards of their time
    reward = at_goal - 1.0 - effort(achieved) * (situation == "infos")
    pairs = {
        "achieved_goal": (after["achieved_goal"], achieved),
        "desired_goal": (before["desired_goal"], goal),
        "observation": (before["observation"], view(situation, before["achieved_goal"], goal)),
        "next_observation": (after["observation"], view(situation, achieved, goal)),
        "reward": (batch.rewards[judged], reward[judged]),
        "termination": (batch.terminations[judged], (at_goal & (situation != "hidden ends"))[judged]),
    }
    return [name for name, (found, expected) in pairs.items() if not np.allclose(found, expected, atol=1e-5)]


RECORD = {
    "EpisodeRecorder": record,
    "add": partial(record, by_add=True),
    "VectorEpisodeRecorder": record_vector,
}

RIGHT = {(situation, way) for situation in ("correct", "autoreset", "changed radius") for way in RECORD}
RIGHT -= {("autoreset", "add")}  # the caller does not pass skip=
RIGHT |= {(situation, "EpisodeRecorder") for situation in ("reused arrays", "one reused array")}
REJECTED = {("shared object", "VectorEpisodeRecorder"), *(("stacked frames", way) for way in RECORD)}
REJECTED |= {(situation, "add") for situation in ("reused arrays", "one reused array")}


@pytest.mark.parametrize(("situation", "way"), sorted(RIGHT))
def test_transitions_are_correct(situation, way):
    with warnings.catch_warnings(action="ignore" if situation != "correct" else "error"):
        assert wrong_parts(RECORD[way](situation), situation) == []


@pytest.mark.parametrize(("situation", "way"), sorted(REJECTED))
def test_recordings_are_rejected(situation, way):
    with pytest.raises((TypeError, ValueError)):
        RECORD[way](situation)


@pytest.mark.parametrize(
    ("situation", "way"),
    [
        pair
        for pair in itertools.product(SITUATIONS, RECORD)
        if pair not in RIGHT | REJECTED and pair[0] != "shared object"
    ],
)
def test_wrong_transitions_have_a_warning(situation, way):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        wrong = wrong_parts(RECORD[way](situation), situation)
    assert wrong
    assert any(issubclass(each.category, UserWarning) for each in found)
