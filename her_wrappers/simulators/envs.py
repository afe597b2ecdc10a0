"""A GoalSimulator as Gymnasium environments of arrays: SimulatorEnv and SimulatorVectorEnv."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from her_wrappers.data.trees import as_array, map_tree
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.goals.success_flag import FLAG_NAMES
from her_wrappers.simulators.reading import as_tensors


class SimulatorEnv(gym.Env[Any, Any]):
    """The first environment of a `GoalSimulator`; the others get the same actions.

    This class is for policies that act in one environment, as in ``her watch``. Each `reset` resets all
    environments of the simulator, and each `step` copies values to the host. Infos have ``is_success``.
    """

    def __init__(self, simulator: Any) -> None:
        self.simulator, self._is_closed = simulator, False
        self.observation_space = simulator.single_observation_space
        self.action_space = simulator.single_action_space
        self.max_steps = simulator.max_steps
        vector_env = simulator.as_vector_env()
        for name in ("compute_reward", "compute_terminated"):
            if hasattr(vector_env, name):
                setattr(self, name, getattr(vector_env, name))
        if callable(getattr(simulator.sim, "render", None)):
            self.metadata = {"render_modes": ["rgb_array"]}
            self.render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Reset the simulator, with the seed if it takes one."""
        super().reset(seed=seed)
        return self._row(self.simulator.reset(seed if self.simulator.takes_seed else None)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step all environments; return the values of the first, with its observation before any reset."""
        array, count = np.asarray(action), self.simulator.num_envs
        step = self.simulator.step(torch.as_tensor(np.broadcast_to(array, (count, *array.shape)).copy()))
        info = self._row(step.info)
        if not {*FLAG_NAMES} & info.keys() and len(step.reward.unique()) > 2:
            raise ValueError(
                "info_keys must have 'is_success' or 'success' of the simulator's infos, since rewards with "
                f"more than two values do not show success, got {self.simulator.info_keys}"
            )
        info["is_success"] = bool(self.simulator.is_success(step)[0])
        ends = bool(step.terminated[0]), bool(step.truncated[0])
        return self._row(step.last_observation), float(step.reward[0]), *ends, info

    def render(self) -> Any:
        """Return the picture that the simulator renders; of several pictures, the first one."""
        pictures = self.simulator.sim.render()
        picture = as_array(pictures[0] if isinstance(pictures, list | tuple) else pictures)
        return picture[0] if picture.ndim == 4 else picture

    def close(self) -> None:
        """Close the simulator, once."""
        if not self._is_closed:
            self._is_closed = True
            self.simulator.close()

    def _row(self, tree: Any) -> Any:
        return map_tree(lambda leaf: as_array(leaf[0]).copy(), tree)


class SimulatorVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """A `GoalSimulator` as a Gymnasium vector environment in mode SAME_STEP; steps are copied to the host."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - as gym.vector.VectorEnv declares it

    def __init__(self, simulator: Any) -> None:
        self.simulator, self.num_envs = simulator, simulator.num_envs
        self.single_observation_space = simulator.single_observation_space
        self.single_action_space = simulator.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.compute_reward = partial(self._call, simulator.compute_reward)
        if simulator.compute_terminated is not None:
            self.compute_terminated = partial(self._call, simulator.compute_terminated)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, with one seed for the simulator (the first of a list), and no options."""
        if options:
            raise ValueError(f"options must be empty, since all environments are reset, got {options}")
        seed = seed[0] if isinstance(seed, list | tuple) else seed
        super().reset(seed=seed)
        return map_tree(as_array, self.simulator.reset(seed)), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments; infos have ``info_keys``, ``final_obs`` and ``final_info``, with masks."""
        step = self.simulator.step(torch.as_tensor(np.asarray(actions), device=self.simulator.device))
        terminated, truncated = as_array(step.terminated), as_array(step.truncated)
        ended = terminated | truncated
        columns = {key: as_array(column) for key, column in step.info.items()}
        infos = _with_masks(columns, ~ended)
        if ended.any():
            self.simulator.check()
            last = map_tree(as_array, step.last_observation)
            final = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(ended):
                final[i] = map_tree(lambda leaf, i=i: leaf[i].copy(), last)
            infos |= _with_masks({"final_obs": final, "final_info": _with_masks(columns, ended)}, ended)
        return map_tree(as_array, step.observation), as_array(step.reward), terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Close the simulator."""
        self.simulator.close()

    def _call(self, function: GoalFunction, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Call a goal function of tensors with arrays of B goals, or with a single goal."""
        space = self.simulator.single_observation_space["achieved_goal"]
        is_single = isinstance(space, spaces.Box) and np.ndim(achieved_goal) == len(space.shape)
        rows = [info] if isinstance(info, dict) else list(info)
        keys = [key for key in self.simulator.info_keys if all(key in row for row in rows)]
        columns = {key: [row[key] for row in rows] for key in keys}
        goals = [np.asarray(goal)[None] if is_single else goal for goal in (achieved_goal, desired_goal)]
        result = as_array(function(*(as_tensors(each, self.simulator.device) for each in (*goals, columns))))
        return result[0] if is_single else result


def _with_masks(infos: dict[str, Any], mask: np.ndarray) -> dict[str, Any]:
    return infos | {f"_{key}": mask.copy() for key in infos}
