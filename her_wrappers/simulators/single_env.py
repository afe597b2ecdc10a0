"""SimulatorEnv: one environment of a GoalSimulator as a Gymnasium environment of arrays."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from her_wrappers.data.trees import as_array, map_tree
from her_wrappers.goals.success_flag import FLAG_NAMES


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
