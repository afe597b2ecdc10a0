"""Shapes and dtypes that Stable-Baselines3 uses for transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.preprocessing import get_action_dim

from her_wrappers.recording.values import as_batch
from her_wrappers.spaces import SpaceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from her_wrappers.infos import Where


class Sb3Shapes:
    """Shapes and dtypes of transitions in SB3: a Discrete value has one axis, and so has an action.

    ``states`` and ``actions`` are the spaces of a stored observation and a stored action of one environment,
    ``state_spec`` and ``action_spec`` their leaves.
    """

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Space[Any], n_envs: int) -> None:
        self.states = spaces.Dict({key: _with_axis(part) for key, part in observation_space.items()})
        self.actions = _with_axis(action_space)
        self._action_shape = n_envs, get_action_dim(action_space)
        if isinstance(action_space, spaces.Box):
            # SB3 casts float64 to float32, and scales actions to [-1, 1].
            dtype: Any = ReplayBuffer._maybe_cast_dtype(action_space.dtype)  # noqa: SLF001 - SB3's own rule
            self.actions = spaces.Box(-1, 1, self._action_shape[1:], dtype)
        self.state_spec = SpaceSpec.of("observation", self.states)
        self.action_spec = SpaceSpec.of("action", self.actions)
        self._n_envs = n_envs
        self._parts = [(str(leaf.path[0]), (n_envs, *leaf.shape), leaf.dtype) for leaf in self.state_spec]
        (self._action_leaf,) = self.action_spec

    def read_states(self, obs: Mapping[str, Any], where: Where) -> list[bytes]:
        """Return the bytes of each leaf of the observations of N environments, which must fit their space."""
        row = [
            value.tobytes()
            for key, shape, dtype in self._parts
            if type(value := obs.get(key)) is np.ndarray and value.dtype is dtype and value.shape == shape
        ]
        if len(row) == len(self._parts):
            return row
        states = dict(obs)
        for key, shape, dtype in self._parts:
            value = obs.get(key)
            if type(value) is np.ndarray:
                if value.dtype.kind == dtype.kind == "f":  # DummyVecEnv casts floats, SubprocVecEnv does not
                    value = value.astype(dtype)
                states[key] = value.reshape(shape) if value.shape == shape[:1] else value
        leaves = [(leaf, leaf.find(states, "in the batch")) for leaf in self.state_spec]
        return [as_batch(leaf, value, count=self._n_envs, where=where).tobytes() for leaf, value in leaves]

    def read_actions(self, action: Any, where: Where) -> list[bytes]:
        """Return the bytes of the actions of N environments, floats rounded; raise ValueError if invalid."""
        actions, leaf = np.asarray(action), self._action_leaf
        if actions.size != self._action_shape[0] * self._action_shape[1]:
            raise ValueError(f"action must have shape {self._action_shape}, got {actions.shape}")
        if actions.dtype is not leaf.dtype:
            rows = actions.reshape(self._action_shape)
            actions = as_batch(leaf, rows, count=self._n_envs, where=where, rounding=True)
        return [actions.tobytes()]


def _with_axis(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return a MultiDiscrete space for a Discrete one, so that elements have an axis."""
    if isinstance(space, spaces.Discrete):
        return spaces.MultiDiscrete([space.n], dtype=space.dtype.type, start=[space.start])
    return space
