"""Environments and policies for collectors, and comparisons of the rounds of collectors."""

import os
import signal
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers.collecting import Collector
from tests.support.equality import assert_same_episodes


class Walk(gym.Env):
    """A random walk with episodes of random length; all random numbers come from ``np_random``."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-1, 1, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(2, 7))
        self.place = self.np_random.normal(size=2)
        return self.place.copy(), {"place": self.place[0]}

    def step(self, action):
        self.place = self.place + action + self.np_random.normal(size=2)
        self.left -= 1
        return self.place.copy(), float(action[0]), self.left == 0, False, {"place": self.place[0]}


class Slow(Walk):
    """A random walk with steps that take time."""

    def step(self, action):
        time.sleep(0.01)
        return super().step(action)


class Remembering(Walk):
    """A random walk whose positions depend on the number of earlier episodes, not only on the seed."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.episodes += 1
        self.place = observation + self.episodes
        return self.place.copy(), info


class Unseeded(Walk):
    """A random walk whose resets ignore the seed."""

    def reset(self, *, seed=None, options=None):
        return super().reset()


class SeededWhenMade(Walk):
    """A random walk whose generator is seeded once, in the constructor; resets ignore their seed."""

    def __init__(self, seed=0):
        super().reset(seed=seed)

    def reset(self, *, seed=None, options=None):
        return super().reset()


class Fails(Walk):
    """An environment whose steps with the numbers ``at`` fail; a file counts the steps of all processes."""

    path, at = None, (1, 2)

    def fail(self):
        raise ArithmeticError("the simulator diverged")

    def step(self, action):
        with open(self.path, "ab", buffering=0) as file:  # noqa: PTH123 - opened in a worker
            file.write(b"x")
            number = file.tell()
        if number in self.at:
            self.fail()
        return super().step(action)


class Killed(Fails):
    """An environment that kills its process at some of its steps."""

    def fail(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Noisy:
    """A policy with exploration noise and a state to load: the action is gain * position + noise, clipped."""

    def __init__(self):
        self.gain, self.rng = 0.1, np.random.default_rng(0)

    def seed(self, n):
        self.rng = np.random.default_rng(n)

    def load_state_dict(self, state):
        self.gain = state["gain"]

    def __call__(self, observations):
        noise = self.rng.normal(size=(len(observations), 1))
        return (self.gain * observations[:, :1] + noise).clip(-1, 1)


class NeverSeeded:
    """A policy with random actions and without the method ``seed``."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self, observations):
        return self.rng.uniform(-1, 1, (len(observations), 1))


def still(observations):
    return np.zeros((len(observations), 1))


def two_walks(mode):
    return SyncVectorEnv([Walk] * 2, autoreset_mode=mode)


def disabled_walks():
    """Return a vector environment without autoreset, which the collector has to reset."""
    return two_walks(AutoresetMode.DISABLED)


def gain_of(episodes):
    return {"gain": float(np.tanh(episodes.rewards.sum()))}


def collect_with_updates(collector, rounds, *, disturb=lambda number: None, episodes_per_env=2):
    """Return the episodes of some rounds; the policy gets a new state after each round.

    ``disturb`` is called with the number of each round, except the last.
    """
    collected = []
    for each in collector.rounds(episodes_per_env):
        collected.append(each.episodes)
        collector.update(gain_of(each.episodes))
        if len(collected) == rounds:
            return collected
        disturb(each.number)
    raise AssertionError("rounds never end")


def collect(backend, rounds=4, *, make_env=Walk, policy=None, **options):
    """Return the episodes of some rounds of a new collector."""
    settings = {"num_workers": 2, "num_envs": 3, "seed": 7, "info_keys": ["place"]} | options
    with Collector(make_env, policy or Noisy(), backend=backend, **settings) as collector:
        return collect_with_updates(collector, rounds)


def assert_same_rounds(some, others):
    """Assert that two lists of rounds have bit-identical episodes."""
    for one, other in zip(some, others, strict=True):
        assert_same_episodes(one, other)
