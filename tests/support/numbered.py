"""Environments whose states identify environment, episode and step, and the comparison of their episodes."""

import itertools

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import EpisodeRecorder, VectorEpisodeRecorder

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
INFO_KEYS = ["place", "odd", "name"]


def length_of(lengths, number, episode):
    """Return the number of steps of an episode of environment ``number``."""
    own = lengths[int(number) % len(lengths)]
    return own[int(episode) % len(own)]


class Numbered(gym.Env):
    """An environment with state (environment, episode, step), whose reward is the action's first component.

    Even episodes terminate, odd ones are truncated. The environment overwrites actions with NaN and, unless
    ``reuse`` is False, its observations. ``taken`` gets (environment, episode, step, reward) of each step.
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
        self.taken.append((*self.place.tolist(), reward))
        ends = bool(self.place[2] == length_of(self.lengths, self.number, self.episode))
        terminated = ends and self.episode % 2 == 0
        self.info.pop("only_at_reset", None)
        return self.observe(), reward, terminated, ends and not terminated, self.info


def recorder_of(env, *sinks, **options):
    """Return a recorder of a single or vector environment."""
    kind = EpisodeRecorder if isinstance(env, gym.Env) else VectorEpisodeRecorder
    return kind(env, *sinks, **options)


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


def drive(env, calls, resets=None, first=0):
    """Reset, and step with `actions_of`; reset environments that ended in mode DISABLED, and single ones.

    ``resets`` has masks of further resets by the number of the call, None for a reset of all.
    """
    env.reset()
    resets, is_single = resets or {}, isinstance(env, gym.Env)
    for call in range(first, first + calls):
        _, _, terminated, truncated, _ = env.step(actions_of(call, env))
        ended = np.atleast_1d(terminated | truncated)
        mask = np.array(resets.get(call) or np.zeros(len(ended), bool))
        if is_single or env.metadata["autoreset_mode"] is DISABLED:
            mask |= ended
        if (call in resets and resets[call] is None) or (is_single and mask.any()):
            env.reset()
        elif mask.any():
            env.reset(options={"reset_mask": mask})


def assert_recorded(episodes, taken, lengths, *, limit=None, info_keys=INFO_KEYS):
    """Assert that recorded episodes have the steps that environments have ``taken``, row by row."""
    happened = []
    for (i, number), steps in itertools.groupby(sorted(taken), lambda step: step[:2]):
        calls = [call for *_, call in steps]
        size = limit or len(calls)
        happened += [(i, number, begun, calls[begun : begun + size]) for begun in range(0, len(calls), size)]
    recorded = sorted(episodes, key=lambda episode: episode.observations["place"][0, 0])
    assert [len(episode) for episode in recorded] == [len(calls) for *_, calls in happened]
    for episode, (i, number, begun, calls) in zip(recorded, happened, strict=True):
        places = np.array([[i, number, begun + t] for t in range(len(calls) + 1)])
        np.testing.assert_array_equal(episode.observations["place"], places)
        np.testing.assert_array_equal(episode.observations["nested"]["odd"], places[:, 2] % 2)
        np.testing.assert_array_equal(episode.actions, [[call, i] for call in calls])
        np.testing.assert_array_equal(episode.rewards, calls)
        whole = places[-1, 2] == length_of(lengths, i, number)
        assert episode.terminated == (whole and number % 2 == 0)
        assert episode.truncated == (not whole or number % 2 == 1)
        infos = {
            "place": places,
            "odd": places[:, 2] % 2 == 1,
            "name": [f"step {t:.0f}" for t in places[:, 2]],
        }
        assert set(episode.infos) == set(info_keys) == set(episode.reset_info)
        for key in info_keys:
            np.testing.assert_array_equal(episode.infos[key], infos[key][1:])
            np.testing.assert_array_equal(episode.reset_info[key], infos[key][0])
