"""Environments whose states identify environment, episode and step, and their expected episodes."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
INFO_KEYS = ["place", "odd", "name"]


def length_of(lengths, number, episode):
    """Return the number of steps of an episode of environment ``number``."""
    own = lengths[int(number) % len(lengths)]
    return own[int(episode) % len(own)]


class Numbered(gym.Env):
    """An environment with state (environment, episode, step), whose reward is the action's first component.

    Even episodes terminate, odd ones are truncated. The environment overwrites actions with NaN and, unless
    ``reuse`` is False, its observations. Each step is appended to ``taken``.
    """

    observation_space = spaces.Dict(
        place=spaces.Box(-1, np.inf, (3,), np.float64), nested=spaces.Dict(odd=spaces.Discrete(2))
    )
    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, lengths=((3, 1, 5),), number=0, *, reuse=True, taken=None):
        self.lengths, self.number, self.reuse = lengths, number, reuse
        self.taken = [] if taken is None else taken
        self.place, self.episode, self.info = np.array([number, -1, 0.0]), -1, {}

    def observe(self):
        place = self.place if self.reuse else self.place.copy()
        odd = int(self.place[2]) % 2
        self.info |= {"place": place, "odd": np.bool_(odd), "name": f"step {self.place[2]:.0f}"}
        return {"place": place, "nested": {"odd": odd}}

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        self.place[1:] = self.episode, 0
        self.info = {"only_at_reset": self.episode}
        return self.observe(), self.info

    def step(self, action):
        reward = float(action[0])
        action[...] = np.nan
        self.place[2] += 1
        self.taken.append(tuple(self.place.tolist()))
        ends = bool(self.place[2] == length_of(self.lengths, self.number, self.episode))
        terminated = ends and self.episode % 2 == 0
        self.info.pop("only_at_reset", None)
        return self.observe(), reward, terminated, ends and not terminated, self.info


def makers(num_envs, lengths, *, reuse=False, taken=None, kind=Numbered):
    """Return functions that make the environments."""
    return [lambda i=i: kind(lengths, i, reuse=reuse, taken=taken) for i in range(num_envs)]


def vector(num_envs, lengths, mode, *, taken=None):
    return SyncVectorEnv(makers(num_envs, lengths, taken=taken), autoreset_mode=mode)


class FinalArrays(gym.vector.VectorWrapper):
    """A vector environment whose ``final_obs`` are arrays with a row for each environment."""

    def step(self, actions):
        *result, infos = self.env.step(actions)
        if "final_obs" in infos:
            place, odd = np.zeros((self.num_envs, 3)), np.zeros(self.num_envs, np.int64)
            for i, final in enumerate(infos["final_obs"]):
                if final is not None:
                    place[i], odd[i] = final["place"], final["nested"]["odd"]
            infos["final_obs"] = {"place": place, "nested": {"odd": odd}}
        return (*result, infos)


def actions_of(call, env):
    """Return actions that identify the call of ``step`` and the environment."""
    if isinstance(env, gym.Env):
        return np.float32([call, 0])
    return np.stack([np.full(env.num_envs, call), np.arange(env.num_envs)], axis=1).astype(np.float32)


def drive(env, calls, truth=None, resets=None, first=0):
    """Reset, and step with `actions_of`; reset environments that ended in mode DISABLED, and single ones.

    ``resets`` has masks of further resets by the number of the call, None for a reset of all. All calls are
    repeated on the expected episodes ``truth``.
    """

    def reset(mask=None):
        if mask is None or isinstance(env, gym.Env):
            env.reset()
        else:
            env.reset(options={"reset_mask": mask.copy()})
        if truth is not None:
            truth.reset(mask)

    reset()
    resets, is_disabled = resets or {}, isinstance(env, gym.Env) or env.metadata["autoreset_mode"] is DISABLED
    for call in range(first, first + calls):
        _, _, terminated, truncated, _ = env.step(actions_of(call, env))
        ended = np.atleast_1d(terminated | truncated)
        if truth is not None:
            np.testing.assert_array_equal(truth.step(), ended)
        mask = np.array(resets.get(call) or np.zeros(len(ended), bool)) | (ended & is_disabled)
        if call in resets and resets[call] is None:
            reset()
        elif mask.any():
            reset(mask)


class ExpectedEpisodes:
    """Expected episodes of numbered environments, with the calls of ``step`` that belong to each episode.

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
        flags = np.zeros(self.num_envs, bool)
        for i in range(self.num_envs):
            if self.ended[i]:
                self._begin(i)
                continue
            self.calls[i].append(self.call)
            steps = self.begun[i] + len(self.calls[i])
            whole = flags[i] = steps == length_of(self.lengths, i, self.episode[i])
            if whole or len(self.calls[i]) == self.limit:
                self._add_episode(i, whole=whole)
                self.begun[i] = steps
            self.ended[i] = whole
            if whole and self.mode is SAME_STEP:
                self._begin(i)
        self.call += 1
        return flags

    def assert_recorded(self, episodes, info_keys=INFO_KEYS):
        """Close, and assert that recorded episodes equal the expected episodes, row by row."""
        self.reset()
        own = [[] for _ in range(self.num_envs)]
        for episode in episodes:
            own[int(episode.observations["place"][0, 0])].append(episode)
        for i, (recorded, happened) in enumerate(zip(own, self.episodes, strict=True)):
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

    def _begin(self, i):
        self.episode[i] += 1
        self.begun[i], self.ended[i] = 0, False

    def _add_episode(self, i, *, whole):
        if self.calls[i]:
            self.episodes[i].append((self.episode[i], self.begun[i], self.calls[i], whole))
        self.calls[i] = []
