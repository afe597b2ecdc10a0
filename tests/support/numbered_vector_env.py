"""Vector environments whose states identify environment, episode and step, and the expected episodes."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

PLACE = spaces.Box(-1, np.inf, (3,), np.float64)
OBSERVATIONS = spaces.Dict(place=PLACE, nested=spaces.Dict(odd=spaces.Discrete(2)))
ACTIONS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


def length_of(lengths, number, episode):
    """Return the number of steps of an episode."""
    own = lengths[number % len(lengths)]
    return own[episode % len(own)]


class Numbered(gym.Env):
    """An environment with state (environment, episode, step), whose reward is the action's first component.

    The action is overwritten with NaN, so that recorders have to copy it before the step.
    """

    observation_space = OBSERVATIONS
    action_space = ACTIONS

    def __init__(self, number, lengths, *, reuse):
        self.number, self.lengths, self.reuse = number, lengths, reuse
        self.place, self.episode = np.array([number, -1, 0.0]), -1

    def _observe(self):
        place = self.place if self.reuse else self.place.copy()
        info = {"place": place, "odd": np.bool_(self.place[2] % 2), "name": f"step {self.place[2]:.0f}"}
        return {"place": place, "nested": {"odd": int(self.place[2]) % 2}}, info

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        self.place[1:] = self.episode, 0
        observation, info = self._observe()
        return observation, info | {"only_at_reset": self.episode}

    def step(self, action):
        reward = float(action[0])
        action[...] = np.nan
        self.place[2] += 1
        end = self.place[2] == length_of(self.lengths, self.number, self.episode)
        terminated = bool(end and self.episode % 2 == 0)
        return self._observe()[0], reward, terminated, bool(end and not terminated), self._observe()[1]


class NumberedVectorEnv(gym.vector.VectorEnv):
    """A vector environment; ``final_obs`` is a dict of arrays with ``arrays``, else an array of dicts."""

    def __init__(self, num_envs, lengths, mode, *, reuse=False, arrays=False):
        self.num_envs, self.lengths, self.mode, self.reuse, self.arrays = (
            num_envs,
            lengths,
            mode,
            reuse,
            arrays,
        )
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = OBSERVATIONS, ACTIONS
        self.observation_space, self.action_space = (
            batch_space(space, num_envs) for space in (OBSERVATIONS, ACTIONS)
        )
        self.place = np.stack([np.arange(num_envs), np.full(num_envs, -1), np.zeros(num_envs)], axis=1) * 1.0
        self.flags = np.zeros((2, num_envs), bool)
        self.odd = np.zeros(num_envs, np.int64)

    def _begin(self, rows):
        self.place[rows, 1] += 1
        self.place[rows, 2] = 0
        self.flags[:, rows] = False

    def _observe(self):
        self.odd[:] = self.place[:, 2] % 2
        observation = {"place": self.place, "nested": {"odd": self.odd}}
        if not self.reuse:
            observation = {"place": self.place.copy(), "nested": {"odd": self.odd.copy()}}
        return observation, {"place": self.place.copy(), "odd": self.odd == 1, "name": self._names()}

    def _names(self):
        return np.array([f"step {t:.0f}" for t in self.place[:, 2]])

    def reset(self, *, seed=None, options=None):
        self._begin((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        return self._observe()

    def step(self, actions):
        rewards = actions[:, 0].astype(np.float64)
        actions[...] = np.nan
        old = self.flags.any(axis=0) & (self.mode is NEXT_STEP)
        assert self.mode is NEXT_STEP or not self.flags.any()
        self._begin(old)
        rewards[old] = 0
        self.place[~old, 2] += 1
        ends = [length_of(self.lengths, i, int(episode)) for i, episode in enumerate(self.place[:, 1])]
        ended, even = (self.place[:, 2] == ends) & ~old, self.place[:, 1] % 2 == 0
        self.flags = np.stack([ended & even, ended & ~even])
        flags = self.flags.copy()
        observation, info = self._observe()
        if self.mode is SAME_STEP and ended.any():
            final = {"final_obs": self._last(ended), "_final_obs": ended, "final_info": info}
            self._begin(ended)
            observation, info = self._observe()
            info |= final
        return observation, rewards, *flags, info

    def _last(self, ended):
        observation = {"place": self.place.copy(), "nested": {"odd": self.odd.copy()}}
        if self.arrays:
            return observation
        each = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(ended):
            each[i] = {"place": observation["place"][i], "nested": {"odd": observation["nested"]["odd"][i]}}
        return each


def makers(num_envs, lengths, *, reuse):
    """Return functions that make the single environments."""
    return [lambda i=i: Numbered(i, lengths, reuse=reuse) for i in range(num_envs)]


class ExpectedEpisodes:
    """Expected episodes of a vector environment, with the calls of ``step`` that belong to each episode.

    Attributes:
        episodes: List of (episode, first step, calls, whether the episode ended) for each environment.
    """

    def __init__(self, num_envs, lengths, mode, limit=None):
        self.num_envs, self.lengths, self.mode, self.limit = num_envs, lengths, mode, limit
        self.episodes = [[] for _ in range(num_envs)]
        self.episode = [-1] * num_envs
        self.calls = [[] for _ in range(num_envs)]
        self.begun = [0] * num_envs
        self.ended = np.zeros(num_envs, bool)
        self.call = 0

    def reset(self, mask=None):
        for i in np.flatnonzero(np.ones(self.num_envs, bool) if mask is None else mask):
            self._add_episode(i, whole=False)
            self._begin(i)

    def step(self):
        """Record a call of ``step``; return whether the episode of each environment ended, (N,) bool."""
        for i in range(self.num_envs):
            if self.ended[i]:
                self._begin(i)
                continue
            self.calls[i].append(self.call)
            steps = self.begun[i] + len(self.calls[i])
            whole = steps == length_of(self.lengths, i, self.episode[i])
            if whole or len(self.calls[i]) == self.limit:
                self._add_episode(i, whole=whole)
                self.begun[i] = steps
            self.ended[i] = whole
            if whole and self.mode is SAME_STEP:
                self._begin(i)
        self.call += 1
        return self.ended.copy()

    def close(self):
        for i in range(self.num_envs):
            self._add_episode(i, whole=False)

    def _begin(self, i):
        self.episode[i] += 1
        self.begun[i], self.ended[i] = 0, False

    def _add_episode(self, i, *, whole):
        if self.calls[i]:
            self.episodes[i].append((self.episode[i], self.begun[i], self.calls[i], whole))
        self.calls[i] = []


def assert_is_what_happened(episodes, truth, info_keys):
    """Assert that recorded episodes equal the expected episodes in ``truth``, row by row."""
    own = [[] for _ in range(truth.num_envs)]
    for episode in episodes:
        own[int(episode.observations["place"][0, 0])].append(episode)
    for i, (recorded, happened) in enumerate(zip(own, truth.episodes, strict=True)):
        assert [len(episode) for episode in recorded] == [len(calls) for _, _, calls, _ in happened]
        for episode, (number, begun, calls, whole) in zip(recorded, happened, strict=True):
            steps = range(begun, begun + len(calls) + 1)
            places = np.array([[i, number, t] for t in steps])
            np.testing.assert_array_equal(episode.observations["place"], places)
            np.testing.assert_array_equal(episode.observations["nested"]["odd"], places[:, 2] % 2)
            np.testing.assert_array_equal(episode.actions, [[k, i] for k in calls])
            np.testing.assert_array_equal(episode.rewards, calls)
            assert episode.terminated == (whole and number % 2 == 0)
            assert episode.truncated == (not whole or number % 2 == 1)
            infos = {"place": places, "odd": places[:, 2] % 2 == 1, "name": [f"step {t}" for t in steps]}
            assert set(episode.infos) == set(info_keys) == set(episode.reset_info)
            for key in info_keys:
                np.testing.assert_array_equal(episode.infos[key], infos[key][1:])
                np.testing.assert_array_equal(episode.reset_info[key], infos[key][0])
