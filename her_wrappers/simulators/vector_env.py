"""SimulatorVectorEnv: a GoalSimulator as a Gymnasium vector environment of arrays."""

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
from her_wrappers.simulators.reading import as_tensors


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
            raise ValueError(
                f"options must be empty, since all environments are reset at once, got {options}"
            )
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
