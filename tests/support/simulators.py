"""Simulators with the interfaces of Isaac Lab, mjlab, ManiSkill, Genesis, Brax and MuJoCo Playground.

Their states say where they come from: lane, episode and step. `FAULTS` are what they may do wrong.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from her_wrappers.simulators import GoalSimulator

TIME_LIMIT = 6

FAULTS = ("after the reset", "before the step", "zeros", "nan", "absent", "unmarked")


def numbered(lane, episode, step):
    """Observation, achieved goal and desired goal that name lane, episode and step."""
    lane = lane + 0 * step
    return (
        np.stack([lane, episode, step], 1),
        np.stack([100 * episode + step, lane], 1),
        np.stack([100 * episode + 4, lane], 1),
    )


def length_of(lane, episode):
    """Length of an episode without the time limit: 2 to 7 steps."""
    return 2 + (2 * lane + 3 * episode) % 6


def compute_reward(achieved_goal, desired_goal, info):
    """Reward 0 for equal goals, else -1, for arrays and tensors."""
    return 0.0 - 1.0 * (achieved_goal != desired_goal).any(-1)


class Lanes:
    """N lanes whose states are a function of the numbers of lane, episode and step."""

    def __init__(self, fault=None, num_envs=4, state=numbered, length=length_of):
        self.num_envs, self.fault, self.max_episode_length, self.device = num_envs, fault, TIME_LIMIT, "cpu"
        self.state, self.length = state, length
        self.lane = np.arange(num_envs)
        self.episode = np.full(num_envs, -1)
        self.t = np.zeros(num_envs, int)
        self.single_action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def start(self, mask=True):
        self.episode, self.t = self.episode + mask, np.where(mask, 0, self.t)

    def observe(self, step=None):
        values = self.state(self.lane, self.episode, self.t if step is None else step)
        observation, achieved_goal, desired_goal = (
            torch.tensor(np.asarray(each), dtype=torch.float32) for each in values
        )
        return {"policy": observation, "goals": {"achieved": achieved_goal, "desired": desired_goal}}

    def advance(self):
        """Move all lanes; return rewards and two flags, arrays (N,)."""
        self.t = self.t + 1
        length = self.length(self.lane, self.episode)
        truncated = self.t >= TIME_LIMIT
        terminated = (self.t >= length) & ~truncated
        goals = self.observe()["goals"]
        return compute_reward(goals["achieved"], goals["desired"], {}).numpy(), terminated, truncated

    def finish(self, ended):
        """Reset the lanes that ended; return the observation that the fault shows, before and after."""
        final = self.observe(self.t - 1 if self.fault == "before the step" else None)
        self.start(ended)
        fill = {"zeros": 0.0, "nan": np.nan}.get(self.fault)
        if fill is not None:
            final = {
                "policy": torch.full_like(final["policy"], fill),
                "goals": {key: torch.full_like(leaf, fill) for key, leaf in final["goals"].items()},
            }
        return self.observe() if self.fault == "after the reset" else final


class Generic(Lanes):
    """A simulator without the habits of any library: 5 values, ``final_obs`` with all rows, and no mask."""

    def reset(self, seed=None):
        self.start()
        return self.observe()

    def step(self, action):
        reward, terminated, truncated = self.advance()
        final = self.finish(terminated | truncated)
        return self.observe(), *map(torch.tensor, (reward, terminated, truncated)), {"final_obs": final}


class IsaacLab(Lanes):
    """ManagerBasedRLEnv since `compute_final_obs`: it reuses buffers, and final_obs exists after ends."""

    def __init__(self, fault=None, autoreset_mode="SAME_STEP", **options):
        super().__init__(fault, **options)
        self.cfg = SimpleNamespace(compute_final_obs=fault != "absent", autoreset_mode=autoreset_mode)
        self.extras, self.reward_buf = {"log": {}}, torch.zeros(self.num_envs)
        self.flags = torch.zeros(2, self.num_envs, dtype=torch.bool)
        self.obs_buf = None

    @property
    def unwrapped(self):
        return self

    def reset(self, seed=None, env_ids=None, options=None):
        self.start(True if env_ids is None else np.isin(self.lane, env_ids))
        return self._observations(), self.extras

    def step(self, action):
        assert isinstance(action, torch.Tensor)
        reward, terminated, truncated = self.advance()
        self.reward_buf.copy_(torch.tensor(reward))
        self.flags.copy_(torch.tensor(np.stack([terminated, truncated])))
        self.extras.pop("final_obs", None)
        if self.cfg.autoreset_mode == "SAME_STEP":
            final = self.finish(terminated | truncated)
            if self.cfg.compute_final_obs and (terminated | truncated).any():
                self.extras["final_obs"] = final
        return self._observations(), self.reward_buf, *self.flags, self.extras

    def _observations(self):
        now = self.observe()
        if self.obs_buf is None:
            self.obs_buf = now
        self.obs_buf["policy"].copy_(now["policy"])
        for key, leaf in now["goals"].items():
            self.obs_buf["goals"][key].copy_(leaf)
        return self.obs_buf


class OldIsaacLab(IsaacLab):
    """ManagerBasedRLEnv before `compute_final_obs`: last observations are lost."""

    def __init__(self):
        super().__init__("absent")
        self.cfg = SimpleNamespace()


class Mjlab(Lanes):
    """ManagerBasedRlEnv: a space of its own, and with ``auto_reset=False``, the caller resets lanes."""

    def __init__(self, fault=None, auto_reset=False, **options):
        super().__init__(fault, **options)
        self.cfg = SimpleNamespace(auto_reset=auto_reset)
        self.single_action_space = SimpleNamespace(shape=(2,), low=-np.inf, high=np.inf)
        self.pending = np.zeros(self.num_envs, bool)

    @property
    def unwrapped(self):
        return self

    def reset(self, *, seed=None, env_ids=None, options=None):
        mask = np.ones(self.num_envs, bool) if env_ids is None else np.isin(self.lane, env_ids)
        self.start(mask)
        self.pending &= ~mask
        return self._groups(), {"log": {}}

    def step(self, action):
        if self.pending.any():
            raise RuntimeError("environments must be reset via reset(env_ids=...)")
        reward, terminated, truncated = self.advance()
        if self.cfg.auto_reset:
            self.start(terminated | truncated)
        else:
            self.pending = terminated | truncated
        return self._groups(), *map(torch.tensor, (reward, terminated, truncated)), {"log": {}}

    def _groups(self):
        observation = self.observe()
        return {"actor": observation.pop("policy"), **observation}


class ManiSkill(Lanes):
    """ManiSkillVectorEnv: after ends, infos are those of the reset, and final_info has those of the step."""

    auto_reset = True

    def reset(self, *, seed=None, options=None):
        mask = True if not options else np.isin(self.lane, options["env_idx"])
        self.start(mask)
        return self.observe(), {"elapsed_steps": torch.tensor(self.t)}

    def step(self, action):
        reward, terminated, truncated = self.advance()
        infos, dones = {"elapsed_steps": torch.tensor(self.t)}, torch.tensor(terminated | truncated)
        if dones.any() and self.auto_reset:
            final = self.finish(dones.numpy())
            mask = torch.zeros_like(dones) if self.fault == "absent" else dones
            infos = {"elapsed_steps": torch.tensor(self.t), "final_info": infos, "_final_info": dones}
            infos |= {"final_observation": final, "_final_observation": mask}
        return self.observe(), *map(torch.tensor, (reward, terminated, truncated)), infos


class Genesis(Lanes):
    """An environment of Genesis: one ``done``, time-outs as floats, extras that are never emptied."""

    num_actions = 2
    extras: dict

    def reset(self):
        self.start()
        self.extras = {}
        return self.observe(), None

    def step(self, actions):
        reward, terminated, truncated = self.advance()
        ended = terminated | truncated
        if ended.any():
            final = self.finish(ended)
            if self.fault != "absent":
                self.extras["final_observations"] = final
        if self.fault != "unmarked":
            self.extras["time_outs"] = torch.tensor(truncated.astype(np.float32))
        return self.observe(), torch.tensor(reward), torch.tensor(ended), self.extras


class EndedRows(Lanes):
    """Last observations of the environments that ended only: with their numbers, shuffled, or in order."""

    def __init__(self, *, with_ids, **options):
        super().__init__(**options)
        self.with_ids = with_ids

    reset = Generic.reset

    def step(self, action):
        reward, terminated, truncated = self.advance()
        ids = torch.tensor(np.flatnonzero(terminated | truncated))
        ids = ids.flip(0) if self.with_ids else ids
        final = self.finish(terminated | truncated)
        rows = {
            "policy": final["policy"][ids],
            "goals": {key: leaf[ids] for key, leaf in final["goals"].items()},
        }
        terminal = {"observations": rows} | ({"env_ids": ids} if self.with_ids else {})
        return self.observe(), *map(torch.tensor, (reward, terminated, truncated)), {"terminal": terminal}


class NumpyVectorEnv(gym.vector.VectorEnv):
    """A Gymnasium vector environment of arrays, with ``final_obs`` as objects."""

    def __init__(self, mode=AutoresetMode.SAME_STEP):
        self.lanes, self.num_envs = Lanes(), 4
        self.metadata = {"autoreset_mode": mode}
        box = {"observation": 3, "achieved_goal": 2, "desired_goal": 2}
        self.single_observation_space = gym.spaces.Dict({
            key: gym.spaces.Box(-np.inf, np.inf, (size,), np.float32) for key, size in box.items()
        })
        self.single_action_space = self.lanes.single_action_space
        self.observation_space = batch_space(self.single_observation_space, 4)
        self.action_space = batch_space(self.single_action_space, 4)
        self.compute_reward = compute_reward

    def reset(self, *, seed=None, options=None):
        self.lanes.start(True if options is None else options["reset_mask"])
        return self._arrays(), {}

    def step(self, actions):
        assert isinstance(actions, np.ndarray)
        reward, terminated, truncated = self.lanes.advance()
        ended, infos, steps = terminated | truncated, {}, self.lanes.t.copy()
        if ended.any() and self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            last, final = self._arrays(), np.full(4, None, object)
            for i in np.flatnonzero(ended):
                final[i] = {key: leaf[i] for key, leaf in last.items()}
            infos = {
                "final_obs": final,
                "_final_obs": ended,
                "final_info": {"steps": steps * ended, "_steps": ended},
            }
            self.lanes.start(ended)
        return self._arrays(), reward, terminated, truncated, infos | {"steps": self.lanes.t.copy()}

    def _arrays(self):
        now = self.lanes.observe()
        achieved_goal, desired_goal = now["goals"].values()
        leaves = {"observation": now["policy"], "achieved_goal": achieved_goal, "desired_goal": desired_goal}
        return {key: leaf.numpy() for key, leaf in leaves.items()}


class TensorVectorEnv(NumpyVectorEnv):
    """A Gymnasium vector environment of tensors, whose ``final_obs`` is a dict of all rows, with a mask."""

    device = "cpu"

    def step(self, actions):
        assert isinstance(actions, torch.Tensor)
        reward, terminated, truncated = self.lanes.advance()
        ended, infos = terminated | truncated, {"steps": torch.tensor(self.lanes.t)}
        if ended.any():
            infos = {"final_obs": self._arrays(), "_final_obs": torch.tensor(ended), "final_info": infos}
            self.lanes.start(ended)
        return self._arrays(), *map(torch.tensor, (reward, terminated, truncated)), infos

    def _arrays(self):
        return {key: torch.tensor(leaf) for key, leaf in super()._arrays().items()}


class JaxArray:
    """An array with the methods of a JAX array that are used, which torch can read by DLPack only."""

    def __init__(self, values):
        self.values = np.array(values.values if isinstance(values, JaxArray) else values)
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def __dlpack__(self, **options):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def reshape(self, *shape):
        return JaxArray(self.values.reshape(*shape))

    def astype(self, dtype):
        return JaxArray(self.values.astype(dtype))

    @property
    def dtype(self):
        return self.values.dtype

    def any(self):
        return bool(self.values.any())


class JaxEnv:
    """A batched environment of Brax with EpisodeWrapper, and with automatic resets that are ``resets``.

    ``resets`` is None, "lost" (no last observation) or "kept" (pull requests of MuJoCo Playground).
    """

    action_size = 2

    def __init__(self, fault=None, resets=None):
        self.lanes, self.resets, self.fault = Lanes(), resets, fault

    @property
    def unwrapped(self):
        return self

    def reset(self, keys):
        self.lanes.start()
        info = {"steps": self.lanes.t, "truncation": np.zeros(4), **self._reset_info(self.lanes.observe())}
        return self._state(self.lanes.episode, self.lanes.t, np.zeros(4), np.zeros(4), info)

    def step(self, state, action):
        assert isinstance(action, np.ndarray)
        lanes = self.lanes
        lanes.episode, lanes.t = state.data["episode"].values.copy(), state.data["step"].values.copy()
        reward, terminated, truncated = lanes.advance()
        ended = terminated | truncated
        info = {"steps": lanes.t, "truncation": truncated.astype(np.float32)}
        episode, step, last = lanes.episode, lanes.t, lanes.observe()
        if self.resets:
            episode, step = lanes.episode + ended, np.where(ended, 0, lanes.t)
        return self._state(episode, step, reward, ended, info | self._reset_info(last))

    def _reset_info(self, last):
        name = "AutoResetWrapper_"
        info = {f"{name}first_obs": last} if self.resets else {}
        return info | ({f"{name}final_obs": last} if self.resets == "kept" else {})

    def _state(self, episode, step, reward, done, info):
        self.lanes.episode, self.lanes.t = episode, step
        data, metrics = {"episode": episode, "step": step}, {}
        parts = {"data": data, "obs": self.lanes.observe(), "reward": reward, "done": done}
        parts |= {"metrics": metrics, "info": info}
        return SimpleNamespace(**{key: _wrapped(part) for key, part in parts.items()})


def _wrapped(tree):
    if isinstance(tree, dict):
        return {key: _wrapped(part) for key, part in tree.items()}
    values = np.asarray(tree)
    return JaxArray(values if values.dtype.kind == "i" else values.astype(np.float32))


def _tree_map(function, tree, *others):
    if isinstance(tree, SimpleNamespace):
        return SimpleNamespace(**_tree_map(function, vars(tree), *map(vars, others)))
    if isinstance(tree, dict):
        return {key: _tree_map(function, tree[key], *(other[key] for other in others)) for key in tree}
    return function(tree, *others)


def install_jax(monkeypatch):
    """Install a module ``jax`` of a few functions, for tests without JAX."""
    jax = ModuleType("jax")
    jax.jit = lambda function: function
    jax.random = SimpleNamespace(
        PRNGKey=lambda seed: seed, split=lambda key, count=2: [key + i for i in range(count)]
    )
    jax.dlpack = SimpleNamespace(from_dlpack=np.from_dlpack)
    jax.lax = SimpleNamespace(cond=lambda test, one, other, value: one(value) if test else other(value))
    jax.tree_util = SimpleNamespace(tree_map=_tree_map)
    where = lambda mask, one, other: JaxArray(np.where(mask.values, one.values, other.values))  # noqa: E731
    jax.numpy = SimpleNamespace(where=where)
    monkeypatch.setitem(sys.modules, "jax", jax)


READ = {
    "observation": "policy",
    "achieved_goal": "goals.achieved",
    "desired_goal": lambda obs: obs["goals"]["desired"],
    "compute_reward": compute_reward,
}
"""Arguments of GoalSimulator that read the observations of `Lanes`."""


def wrapped(sim, **options):
    """Return a GoalSimulator of a simulator whose infos have ``final_obs``."""
    return GoalSimulator(sim, **{"last_observation": "final_obs", **READ} | options)


ACTION = torch.zeros(4, 2)
