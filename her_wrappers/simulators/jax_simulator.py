"""JaxSimulator: an environment of Brax or MuJoCo Playground as a simulator that has a state."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

FINAL = "AutoResetWrapper_final_obs"
"""Info with the last observation in versions of MuJoCo Playground whose automatic resets keep it."""


class JaxSimulator:
    """A batched environment of JAX functions, with a state, random keys and resets of single environments.

    ``env.reset`` takes ``num_envs`` random keys. ``setting`` is advice in an error.
    """

    def __init__(self, env: Any, num_envs: int, setting: str) -> None:
        self.unwrapped, self.num_envs = getattr(env, "unwrapped", env), num_envs
        self.single_action_space = spaces.Box(-1, 1, (env.action_size,), np.float32)
        self._env, self._setting = env, setting
        self._jax: Any = import_module("jax")
        self._reset, self._step = self._jax.jit(self._first_state), self._jax.jit(self._next_state)
        self._key = self._jax.random.PRNGKey(0)

    def reset(self, seed: int | None = None) -> Any:
        """Reset all environments, with random keys of ``seed`` if it is given; return the observation."""
        key = self._key if seed is None else self._jax.random.PRNGKey(seed)
        self._key, key = self._jax.random.split(key)
        self._state = state = self._reset(key)
        if tuple(state.done.shape) != (self.num_envs,):
            raise ValueError(
                f"env must be batched, such as VmapWrapper(env), but done has shape {state.done.shape}"
            )
        self._resets = any(str(name).endswith("first_obs") for name in state.info)
        if self._resets and FINAL not in state.info:
            name = type(self.unwrapped).__name__
            raise ValueError(
                f"the last observations of {name} are lost in its automatic resets; {self._setting}"
            )
        return state.obs

    def step(self, action: torch.Tensor) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Step all environments; return observations after resets, rewards, ``done`` and infos."""
        self._key, key = self._jax.random.split(self._key)
        actions = self._jax.dlpack.from_dlpack(action.detach().contiguous())
        stepped, self._state = self._step(self._state, actions, key)
        final = stepped.info[FINAL] if self._resets else stepped.obs
        infos = {**stepped.info, "metrics": stepped.metrics, "final_obs": final}
        return self._state.obs, stepped.reward, stepped.done, infos

    def _first_state(self, key: Any) -> Any:
        return self._env.reset(self._jax.random.split(key, self.num_envs))

    def _next_state(self, state: Any, action: Any, key: Any) -> tuple[Any, Any]:
        """Return the state after a step, and this state with first states where an episode ended."""
        stepped = self._env.step(state, action)

        def choose(first: Any, now: Any) -> Any:
            if now.shape[:1] != (self.num_envs,):
                return now
            done = stepped.done.reshape(-1, *[1] * (now.ndim - 1)).astype(bool)
            return self._jax.numpy.where(done, first, now).astype(now.dtype)

        def reset(now: Any) -> Any:
            return self._jax.tree_util.tree_map(choose, self._first_state(key), now)

        if self._resets:
            return stepped, stepped
        return stepped, self._jax.lax.cond(stepped.done.any(), reset, lambda now: now, stepped)
