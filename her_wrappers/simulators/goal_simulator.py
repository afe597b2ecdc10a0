"""GoalSimulator: a batched simulator, such as Isaac Lab or mjlab, as a goal environment of tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from her_wrappers.data.infos import FINAL_NAMES
from her_wrappers.data.trees import leaf_arrays, map_tree
from her_wrappers.goals.autoreset import declared_mode
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.goals.interface import OBSERVATION_KEYS, GoalInterface, find_function, goal_spaces
from her_wrappers.goals.success_flag import FLAG_NAMES
from her_wrappers.replay.lanes import SimulatorStep
from her_wrappers.replay.tensors import call_unchanged, on_tensors
from her_wrappers.simulators.checks import Checks
from her_wrappers.simulators.jax_simulator import JaxSimulator
from her_wrappers.simulators.reading import KeyPath, as_tensors, choose, find, keys_of
from her_wrappers.simulators.single_env import SimulatorEnv
from her_wrappers.simulators.vector_env import SimulatorVectorEnv
from her_wrappers.support.arguments import require_function, require_keys

Reader: TypeAlias = KeyPath | Callable[[Any], Any]
"""A key or path of keys in the simulator's observation, or a function of the observation."""


@dataclass(kw_only=True, eq=False, repr=False)
class GoalSimulator:
    """A batched simulator as a goal environment: N environments whose values are tensors on one device.

    ``sim`` is any object with ``num_envs``, ``reset`` and ``step``. ``step`` returns observations, rewards,
    ``terminated``, ``truncated`` and infos, or observations, rewards, ``done`` and infos with ``time_outs``.
    Where an episode ended, most simulators return the first observation of the next episode. The argument
    ``last_observation`` says where the last observation of the ended episode is. If it is wrong, goals are
    wrong, so the first ended episodes and a few later ones are checked. `step` reads the results in its calls
    1, 2, 4, 8, .. Only then, and at resets with ``last_observation="returned"``, it waits for the device. The
    constructor resets the simulator once, to read the shapes of its observations.

    Args:
        sim: The simulator.
        observation: The policy's observation: a key, a path of keys (``"a.b"`` or a tuple; ``()`` for all),
            or a function of the simulator's observation.
        achieved_goal: The achieved goal, like ``observation``.
        desired_goal: The desired goal, like ``observation``. A function must read the goal from its
            argument, not from ``sim``, which may already have the goal of the next episode.
        compute_reward: Function ``(achieved_goal, desired_goal, info)`` of tensors (B, G) that returns
            rewards (B,); ``info`` is a dict of tensors (B, ...) with the keys ``info_keys``.
        last_observation: Place of the last observations of episodes: a path of keys in the infos, with rows
            for all environments, for those that ended, or for those in ``env_ids`` of the same dict;
            ``"final_obs"`` also finds ``final_observation`` and ``terminal_observation``. ``"returned"``:
            ``step`` returns them, since the simulator does not reset by itself. Or a function
            ``(observation, infos)`` that returns the rows of all environments.
        compute_terminated: Function like ``compute_reward`` that returns bools, for the buffer.
        reward: ``"compute"``: rewards are ``compute_reward`` of the goals after the step. ``"simulator"``:
            rewards are those of the simulator, which ``compute_reward`` must reproduce.
        truncated: Path of keys to the truncations in the infos if ``step`` returns ``done``.
        info_keys: Paths of keys in the infos whose values become `SimulatorStep.info`.
        further: Further keys of the observation, each with a value like ``observation`` above, such as
            ``{"state": "critic"}`` for an agent with ``critic_keys=["state"]``.
        reset_lanes: Function, used with ``"returned"``, that resets the environments in a mask, (N,) bool,
            and returns the same as ``sim.reset``; by default ``sim.reset(env_ids=...)``.
        time_limit: Steps after which the simulator truncates, 0 for never; by default
            ``sim.max_episode_length``.
        action_space: Action space of one environment; by default ``sim.single_action_space``.
        device: Device of the tensors; by default that of the simulator.
        checks: Whether to check the last observations.
        setting: Text that messages about wrong last observations end with, such as a setting to change.

    Attributes:
        max_steps: The time limit, or None if it is unknown.
        takes_seed: Whether ``sim.reset`` takes a seed.

    Raises:
        TypeError: A function is not callable.
        ValueError: An argument is not valid, or the observation lacks a key or does not have N rows.
    """

    sim: Any = field(kw_only=False)
    observation: Reader
    achieved_goal: Reader
    desired_goal: Reader
    compute_reward: GoalFunction
    last_observation: KeyPath | Callable[[Any, Any], Any]
    compute_terminated: GoalFunction | None = None
    reward: str = "compute"
    truncated: KeyPath = "time_outs"
    info_keys: Sequence[str] = ()
    further: Mapping[str, Reader] = field(default_factory=dict)
    reset_lanes: Callable[[torch.Tensor], Any] | None = None
    time_limit: int | None = None
    action_space: spaces.Space[Any] | None = None
    device: Any = None
    checks: bool = True
    setting: str = "correct last_observation"

    def __post_init__(self) -> None:
        if self._of_sim("num_envs") is None or not (hasattr(self.sim, "reset") and hasattr(self.sim, "step")):
            raise ValueError(f"sim must have num_envs, reset and step, got {type(self.sim).__name__}")
        if self.reward not in {"compute", "simulator"}:
            raise ValueError(f"reward must be 'compute' or 'simulator', got {self.reward!r}")
        require_function("compute_reward", self.compute_reward)
        self.info_keys = require_keys("info_keys", self.info_keys)
        self.device = None if self.device is None else torch.device(self.device)
        self.num_envs = int(self._of_sim("num_envs"))
        self._name = type(getattr(self.sim, "unwrapped", self.sim)).__name__
        limit = self._of_sim("max_episode_length") if self.time_limit is None else self.time_limit
        self.max_steps = None if limit is None else int(limit)
        self.takes_seed = bool({"seed", "kwargs"} & inspect.signature(self.sim.reset).parameters.keys())
        self._checks = Checks(self._name, self.setting, self.max_steps, self.checks)
        self.notes = self._checks.notes
        observation = self.reset()
        self.device = leaf_arrays(observation)[0].device
        self.single_observation_space: spaces.Dict = _space(observation)
        self.single_action_space = self._find_action_space()

    @classmethod
    def isaaclab(cls, sim: Any, **options: Any) -> GoalSimulator:
        """Wrap an environment of Isaac Lab with ``cfg.compute_final_obs``, and observe ``"policy"``."""
        cfg, last = sim.unwrapped.cfg, "final_obs"
        mode = getattr(cfg, "autoreset_mode", None)
        if getattr(mode, "name", mode) == "DISABLED":
            last = "returned"
        elif "last_observation" not in options and not getattr(cfg, "compute_final_obs", False):
            lost = "else last observations are lost (update Isaac Lab if it is older than 2026-06)"
            raise ValueError(f"cfg.compute_final_obs must be True, {lost}")
        setting = "set cfg.compute_final_obs = True and read extras['final_obs']"
        return cls(sim, **{"observation": "policy", "last_observation": last, "setting": setting} | options)

    @classmethod
    def mjlab(cls, sim: Any, **options: Any) -> GoalSimulator:
        """Wrap an environment of mjlab with ``cfg.auto_reset = False``, and observe ``"actor"``."""
        setting = "set cfg.auto_reset = False, else mjlab loses the last observations"
        if "last_observation" not in options and getattr(sim.unwrapped.cfg, "auto_reset", True):
            raise ValueError(setting)
        defaults = {"observation": "actor", "last_observation": "returned", "setting": setting}
        return cls(sim, **defaults | options)

    @classmethod
    def maniskill(cls, sim: Any, **options: Any) -> GoalSimulator:
        """Wrap a ``ManiSkillVectorEnv``, or an environment of ManiSkill that does not reset itself."""
        defaults = {
            "last_observation": "final_obs" if getattr(sim, "auto_reset", False) else "returned",
            "reset_lanes": lambda ended: sim.reset(options={"env_idx": ended.nonzero().squeeze(-1)}),
            "setting": "use ManiSkillVectorEnv(env, auto_reset=True) and its infos['final_observation']",
        }
        return cls(sim, **defaults | options)

    @classmethod
    def brax(cls, env: Any, num_envs: int | None = None, **options: Any) -> GoalSimulator:
        """Wrap a batched environment of Brax or MuJoCo Playground that does not reset itself.

        Use ``EpisodeWrapper(VmapWrapper(env), episode_length, 1)`` of ``brax.envs.wrappers.training``.
        Ended environments are reset to new states. Arrays of JAX become tensors by DLPack.
        """
        setting = "use the environment without the wrapper for automatic resets (auto_reset=False)"
        defaults = {"observation": (), "last_observation": "final_obs", "truncated": "truncation"}
        return cls(JaxSimulator(env, num_envs, setting), **defaults | {"setting": setting} | options)

    playground = brax

    @classmethod
    def genesis(cls, sim: Any, **options: Any) -> GoalSimulator:
        """Wrap an environment of Genesis whose ``extras`` have ``"final_observations"``."""
        setting = "set extras['final_observations'] in step(), before the reset"
        defaults = {"observation": (), "last_observation": "final_observations", "setting": setting}
        return cls(sim, **defaults | options)

    @classmethod
    def vector_env(cls, env: gym.vector.VectorEnv[Any, Any, Any], **options: Any) -> GoalSimulator:
        """Wrap a Gymnasium vector environment, of arrays or tensors, in mode SAME_STEP or DISABLED."""
        mode = declared_mode(env)
        if mode not in {AutoresetMode.SAME_STEP, AutoresetMode.DISABLED}:
            raise ValueError(f"autoreset_mode of env must be SAME_STEP or DISABLED, got {mode}")
        functions = {name: find_function(env, name) for name in ("compute_reward", "compute_terminated")}
        is_numpy = getattr(env.unwrapped, "device", None) is None
        if is_numpy:
            own = GoalInterface.of(env, compute_reward=options.get("compute_reward"))
            functions = {name: (each := getattr(own, name)) and on_tensors(each) for name in functions}
        defaults = {
            **{key: key for key in OBSERVATION_KEYS},
            **functions,
            "last_observation": "final_obs" if mode is AutoresetMode.SAME_STEP else "returned",
            "time_limit": getattr(env.unwrapped, "max_steps", None),
            "reset_lanes": lambda mask: env.reset(options={"reset_mask": mask.numpy() if is_numpy else mask}),
            "setting": "correct infos['final_obs'] or metadata['autoreset_mode']",
        }
        made = cls(env, **defaults | options)
        if not {*OBSERVATION_KEYS} & options.keys():  # with bounds
            space = goal_spaces(env)[0]
            made.single_observation_space = spaces.Dict({key: space[key] for key in OBSERVATION_KEYS})
        return made

    def reset(self, seed: int | None = None) -> dict[str, Any]:
        """Reset all environments. ``seed`` seeds the simulator; with None, its random sequence continues.

        Returns:
            The observation: ``observation``, ``achieved_goal`` and ``desired_goal``, (N, ...) each.

        Raises:
            ValueError: The simulator takes no seed, or its observation lacks a key or does not have N rows.
        """
        if seed is not None and not self.takes_seed:
            raise ValueError(f"seed must be None, since {self._name}.reset takes no seed, got {seed}")
        observation = self._read(self.sim.reset() if seed is None else self.sim.reset(seed=seed))
        for name, value in observation.items():
            for leaf in leaf_arrays(value):
                if leaf.shape[:1] != (self.num_envs,):
                    raise ValueError(f"{name} must have {self.num_envs} rows, got shape {tuple(leaf.shape)}")
        self._observation = observation
        self._first: dict[str, Any] | None = observation
        self._checks.begin(observation)
        return observation

    def step(self, action: Any) -> SimulatorStep:
        """Step all environments with (N, A) actions, and reset the environments whose episode ends.

        Raises:
            ValueError: The checks found wrong last observations, or a value has a wrong shape.
        """
        action = torch.as_tensor(action, device=self.device)
        result = self.sim.step(action.cpu().numpy() if self._is_numpy else action)
        if not isinstance(result, tuple) or len(result) not in {4, 5}:
            raise ValueError(
                f"{self._name}.step must return a tuple of 4 or 5 values, got {type(result).__name__}"
            )
        raw, reward, *flags, infos = result
        before, returned, reward = self._observation, self._read(raw), self._rows("reward", reward).float()
        is_pair = len(flags) == 2
        time_outs = flags[1] if is_pair else find(infos, self.truncated)
        done = self._rows("terminated", flags[0]).bool()
        truncated = torch.zeros_like(done) if time_outs is None else self._rows("truncated", time_outs).bool()
        ended = done | truncated if is_pair else done
        terminated, truncated = (done, truncated) if is_pair else (done & ~truncated, done & truncated)
        last, absent = self._last_observation(raw, infos, returned, ended)
        info = {key: self._column(key, infos, ended) for key in self.info_keys}
        after = self._reset_ended(last, ended) if self.last_observation == "returned" else returned
        goal = last["desired_goal"]
        if self.reward == "compute":
            reward = self._compute(last["achieved_goal"], goal, info)
        if self._checks.is_active:
            cut = None if time_outs is None else truncated
            self._checks.add_step((before, last, after), ended, absent, cut)
            if self.reward == "simulator":
                goals = (before["achieved_goal"], last["achieved_goal"])
                self._checks.add_rewards(reward, *(self._compute(each, goal, info) for each in goals))
        self._checks.count_step()
        first, self._first, self._observation = self._first, None, after
        return SimulatorStep(after, action, reward, terminated, truncated, last, info, first)

    def check(self) -> None:
        """Check all episodes that ended so far; this waits for the device.

        `step` does the same after 1, 2, 4, .. steps. Possible faults, such as a reward that lags by one
        physics substep, are added to ``notes``.

        Raises:
            ValueError: The last observations, truncations or rewards of the simulator are wrong.
        """
        self._checks.judge()

    def is_success(self, step: SimulatorStep) -> torch.Tensor:
        """Return whether each environment is at its goal after a step, (N,) bool.

        Without ``is_success`` or ``success`` in ``step.info``, the reward is compared with that of an exactly
        achieved goal, which is right for sparse rewards only.
        """
        for name in FLAG_NAMES:
            if name in step.info:
                return self._rows(name, step.info[name]).bool()
        goal = step.last_observation["achieved_goal"]
        return step.reward == self._compute(goal, goal, dict(step.info))

    def as_env(self) -> gym.Env[Any, Any]:
        """Return the first environment as a Gymnasium environment with NumPy arrays, for policies."""
        return SimulatorEnv(self)

    def as_vector_env(self) -> gym.vector.VectorEnv[Any, Any, Any]:
        """Return a Gymnasium vector environment with NumPy arrays, for checker, recorders and archives."""
        return SimulatorVectorEnv(self)

    def close(self) -> None:
        """Close the simulator, if it has a method ``close``."""
        getattr(self.sim, "close", lambda: None)()

    def _of_sim(self, name: str) -> Any:
        """Return an attribute of the simulator or, without it, of ``sim.unwrapped``; None if both lack it."""
        return getattr(self.sim, name, getattr(getattr(self.sim, "unwrapped", None), name, None))

    def _find_action_space(self) -> spaces.Space[Any]:
        space, count = self.action_space or self._of_sim("single_action_space"), self._of_sim("num_actions")
        if isinstance(space, gym.Space):
            return space
        if space is not None:  # mjlab has a class of its own
            return spaces.Box(space.low, space.high, space.shape, np.float32)
        if count is None:
            fix = "pass action_space="
            raise ValueError(f"{self._name} has no single_action_space and no num_actions; {fix}")
        return spaces.Box(-np.inf, np.inf, (int(count),), np.float32)

    def _read(self, raw: Any) -> dict[str, Any]:
        """Return tensors by key; ``raw`` is an observation, or a tuple that begins with an observation."""
        raw = raw[0] if isinstance(raw, tuple) else raw
        found = {}
        readers = {**self.further, **{name: getattr(self, name) for name in OBSERVATION_KEYS}}
        for name, reader in readers.items():
            value = reader(raw) if callable(reader) else find(raw, reader)
            if value is None:
                place = f"the observation of {self._name}: {keys_of(raw)}"
                raise ValueError(f"{name}={reader!r} is not in {place}")
            self._is_numpy = isinstance(value, np.ndarray)
            found[name] = as_tensors(value, self.device)
        return found

    def _rows(self, name: str, value: Any) -> torch.Tensor:
        """Return N values of the simulator or of a goal function as a tensor, (N,)."""
        tensor: torch.Tensor = as_tensors(value, self.device)
        if tensor.shape not in {(self.num_envs,), (self.num_envs, 1)}:
            raise ValueError(f"{name} must have shape ({self.num_envs},), got {tuple(tensor.shape)}")
        return tensor.reshape(-1)

    def _compute(self, achieved_goal: Any, desired_goal: Any, info: dict[str, Any]) -> torch.Tensor:
        arguments = achieved_goal, desired_goal, info
        result = call_unchanged("compute_reward", self.compute_reward, arguments)
        return self._rows("compute_reward", result).float()

    def _last_observation(
        self, raw: Any, infos: Any, returned: dict[str, Any], ended: torch.Tensor
    ) -> tuple[dict[str, Any], torch.Tensor]:
        """Return the observation before any reset, and a mask, (N,) bool, of ended episodes without it."""
        if self.last_observation == "returned":
            return returned, torch.zeros_like(ended)
        final: Any = None  # the last observation, in the dict ``near`` under the key ``name``
        near, name = final, ""
        if callable(self.last_observation):
            final = self.last_observation(raw, infos)
        else:
            for path in FINAL_NAMES if self.last_observation == "final_obs" else (self.last_observation,):
                *parents, name = path.split(".") if isinstance(path, str) else path
                near = find(infos, tuple(parents))
                if (final := find(near, (name,))) is not None:
                    break
        ids = next((near[key] for key in ("env_ids", "_env_ids") if find(near, (key,)) is not None), None)
        mask = find(near, (f"_{name}",))
        if isinstance(final, np.ndarray) and final.dtype == object:  # Gymnasium: dicts, and None
            ids = [i for i, row in enumerate(final) if row is not None]
            final = map_tree(lambda *rows: np.stack(rows), *(final[i] for i in ids)) if ids else None
        if final is None:
            return returned, ended
        rows = self._read(final)
        shapes = [map_tree(lambda leaf: tuple(leaf.shape[1:]), tree) for tree in (rows, returned)]
        place = ended.cumsum(0) - 1  # index of an environment among those that ended
        count, *others = map(len, leaf_arrays(rows))
        if shapes[0] != shapes[1] or any(other != count for other in others):
            raise ValueError(f"last observations must have rows of the shapes {shapes[1]}, got {shapes[0]}")
        is_present = place < count if mask is None else as_tensors(mask, ended.device).bool()
        if ids is not None:
            ids = as_tensors(ids, ended.device).long()
            is_present = torch.zeros_like(ended).index_fill_(0, ids, True)
            rows = map_tree(lambda row, now: now.index_copy(0, ids, row.to(now.dtype)), rows, returned)
        elif count < self.num_envs:
            place = place.clamp(0, max(count - 1, 0))
            rows = map_tree(lambda row, now: row.index_select(0, place) if count else now, rows, returned)
        return choose(ended, rows, returned), ended & ~is_present

    def _column(self, key: str, infos: Any, ended: torch.Tensor) -> torch.Tensor:
        """Return an info for all N environments, for those that ended from ``final_info`` if possible."""
        found = [find(infos, key), find(infos, f"final_info.{key}")]
        columns = [as_tensors(each, self.device) for each in found if each is not None]
        if not columns:
            has = f"the infos of {self._name} have {keys_of(infos)}"
            raise ValueError(f"info_keys has {key!r}, but {has}")
        return choose(ended, columns[-1], columns[0])  # type: ignore[no-any-return]

    def _reset_ended(self, last: dict[str, Any], ended: torch.Tensor) -> dict[str, Any]:
        """Reset the environments that ended, and return the observation of all N environments."""
        if not ended.any():  # waits, since the simulator needs the numbers of the environments
            return last
        reset = self.reset_lanes or (lambda mask: self.sim.reset(env_ids=mask.nonzero().squeeze(-1)))
        try:
            raw = reset(ended)
        except TypeError as error:
            if self.reset_lanes is not None or "'env_ids'" not in str(error):
                raise
            raise ValueError(
                f"with last_observation='returned', {self._name} must not reset itself, and its reset() must "
                "take env_ids; pass reset_lanes=, or the place of the last observations as last_observation="
            ) from error
        return choose(ended, self._read(raw), last)  # type: ignore[no-any-return]


def _space(value: Any) -> Any:
    """Return the space of one row of a tensor or dict of tensors; float values have no bounds."""
    if isinstance(value, dict):
        return spaces.Dict({key: _space(part) for key, part in value.items()})
    dtype = np.dtype(str(value.dtype).removeprefix("torch."))
    limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else None
    low, high = (limits.min, limits.max) if limits else (0, 1) if dtype.kind == "b" else (-np.inf, np.inf)
    return spaces.Box(low, high, tuple(value.shape[1:]), dtype.type)
