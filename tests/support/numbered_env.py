"""A single environment whose states identify episode and step."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Numbered(gym.Env):
    """An environment whose states identify episode and step; it reuses its arrays and overwrites actions."""

    observation_space = spaces.Dict(count=spaces.Box(0, np.inf, (2,), np.float64), flag=spaces.Discrete(2))
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, lengths=(3, 1, 5), *, terminates=True):
        self.lengths, self.terminates = lengths, terminates
        self.count, self.info, self.episode = np.zeros(2), {}, -1

    def _observe(self):
        self.info["twice"] = 2 * self.count
        return {"count": self.count, "flag": int(self.count[1]) % 2}

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        self.count[:] = self.episode, 0
        return self._observe(), self.info

    def step(self, action):
        reward = float(action[0])
        action[...] = np.nan
        self.count[1] += 1
        end = self.count[1] == self.lengths[self.episode % len(self.lengths)]
        return self._observe(), reward, end and self.terminates, end and not self.terminates, self.info


def play(env, steps):
    """Reset, and step ``steps`` times with the action (i, -i) at step i; reset when an episode ends."""
    env.reset()
    for i in range(steps):
        _, _, terminated, truncated, _ = env.step(np.float32([i, -i]))
        if terminated or truncated:
            env.reset()
