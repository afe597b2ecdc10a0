"""Situations in which recorded episodes do not fit to relabeling: the buffer is right, or it warns or raises.

In this task, achieved goal, action and desired goal determine the correct transition.
"""

import itertools
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, VectorEpisodeRecorder

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


class Reach(gym.Env):
    """A point in a square moves to a goal within 20 steps; a situation changes one property."""

    def __init__(self, situation):
        self.situation, self.radius = situation, RADIUS
        seen = 4 if situation == "goal in observation" else 2
        sizes = {"observation": seen, "achieved_goal": 2, "desired_goal": 2}
        self.observation_space = spaces.Dict({key: spaces.Box(-3, 3, (n,)) for key, n in sizes.items()})
        self.action_space = spaces.Box(-1, 1, (2,))
        self.reused = {"reused arrays": sizes, "one reused array": ["achieved_goal"]}.get(situation, ())
        self.arrays = {key: np.zeros(n, np.float32) for key, n in sizes.items()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.elapsed = 0
        self.draw()
        return self.observe(), {"effort": effort(self.position)}

    def draw(self):
        self.position, self.goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)

    def observe(self):
        seen = view(self.situation, self.position, self.goal)
        new = {"observation": seen, "achieved_goal": self.position, "desired_goal": self.goal}
        for key in self.reused:
            self.arrays[key][:] = new[key]
        return {key: self.arrays[key] if key in self.reused else value.copy() for key, value in new.items()}

    def step(self, action):
        self.elapsed += 1
        self.position = moved(self.position, action)
        if self.situation == "hidden reset" and self.elapsed == 10:
            self.draw()
        info = {"effort": effort(self.position)}
        at_goal = bool(distance(self.position, self.goal) < self.radius)
        truncates = self.situation == "truncated at goals"
        terminated = at_goal and not truncates and self.situation != "hidden ends"
        truncated = self.elapsed >= 20 or (at_goal and truncates)
        reward = float(self.compute_reward(self.position, self.goal, info))
        return self.observe(), reward, terminated, truncated, info

    def compute_reward(self, achieved_goal, desired_goal, info):
        reward = (distance(achieved_goal, desired_goal) < self.radius) - 1.0
        if self.situation == "infos":
            infos = [info] if isinstance(info, dict) else info
            reward -= np.array([each.get("effort", 0.0) for each in infos]).reshape(reward.shape)
        return reward

    def compute_terminated(self, achieved_goal, desired_goal, info):
        never = self.situation in {"ends at goals", "truncated at goals"}
        return (distance(achieved_goal, desired_goal) < self.radius) & (not never)

    def change(self, t):
        if self.situation == "changed radius" and t > STEPS // 5:
            self.radius = NEW_RADIUS
        if self.situation == "evaluation":
            self.draw()


def moved(position, action):
    return np.clip(position + 0.2 * np.clip(action, -1, 1), -1, 1).astype(np.float32)


def distance(some, others):
    return np.linalg.norm(some - others, axis=-1)


def effort(position):
    return 5.0 * (np.abs(position[..., 0]) > 0.5)


def view(situation, position, goal):
    return np.concatenate([position, goal - position], -1) if situation == "goal in observation" else position


def make(situation):
    env = Reach(situation)
    wrappers = {"stacked frames": lambda each: gym.wrappers.FrameStackObservation(each, 3)}
    return wrappers.get(situation, gym.wrappers.Autoreset if situation == "autoreset" else lambda each: each)(
        env
    )


def record_by_recorder(situation):
    env = make(situation)
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    play(EpisodeRecorder(env, buffer.add_episode), situation)
    return buffer


def record_by_add(situation):
    env = make(situation)
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    play(env, situation, buffer.add)
    return buffer


def play(env, situation, add=lambda *_: None):
    """Step an environment, and pass the transitions to `add`."""
    obs, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for t in range(STEPS):
        if t % 50 == 49:  # within an episode of 20 steps
            env.unwrapped.change(t)
        action = env.action_space.sample()
        after, reward, terminated, truncated, info = env.step(action)
        add(obs, action, reward, after, terminated, truncated, info)
        obs = env.reset()[0] if (terminated or truncated) and situation != "autoreset" else after


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


RECORD = {"EpisodeRecorder": record_by_recorder, "add": record_by_add, "VectorEpisodeRecorder": record_vector}

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
