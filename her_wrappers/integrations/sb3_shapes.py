"""Shapes and names for Stable-Baselines3: transitions as it stores them, strategies as it calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.preprocessing import get_action_dim
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping


class Sb3Shapes:
    """What the transitions of some environments look like: numbers have an axis, actions no more than one.

    Args:
        observation_space: Dict of one environment.
        action_space: Of one environment.
        n_envs: Number of environments, N.

    Attributes:
        states: Space of what is stored of one observation.
        actions: Space of what is stored of one action.
    """

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Space[Any], n_envs: int) -> None:
        self.states = spaces.Dict({key: _with_axis(part) for key, part in observation_space.items()})
        self.actions = _with_axis(action_space)
        self._action_shape = n_envs, get_action_dim(action_space)
        if isinstance(action_space, spaces.Box):
            # SB3 turns doubles into floats, and what comes is scaled to this range, whatever the space's.
            dtype: Any = ReplayBuffer._maybe_cast_dtype(action_space.dtype)  # noqa: SLF001 - SB3's own rule
            self.actions = spaces.Box(-1, 1, self._action_shape[1:], dtype)
        self._parts = {
            key: ((n_envs, *(part.shape or ())), np.dtype(part.dtype)) for key, part in self.states.items()
        }

    def as_states(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        """Return observations of N environments in the shapes and float dtypes in which they are stored."""
        states = {}
        for key in self._parts.keys() & obs.keys():
            value, (shape, dtype) = obs[key], self._parts[key]
            if type(value) is np.ndarray and (value.shape != shape or value.dtype is not dtype):
                if value.dtype.kind == dtype.kind == "f":  # DummyVecEnv rounds, SubprocVecEnv leaves it to us
                    value = value.astype(dtype)
                if value.shape == shape[:1]:
                    value = value.reshape(shape)
            states[key] = value
        return states

    def as_actions(self, action: Any) -> np.ndarray:
        """Return actions of N environments in the shape in which they are stored.

        Raises:
            ValueError: They are not so many numbers.
        """
        actions = np.asarray(action)
        if actions.size != self._action_shape[0] * self._action_shape[1]:
            raise ValueError(f"action must have shape {self._action_shape}, got {actions.shape}")
        return actions.reshape(self._action_shape)


def _with_axis(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return a space whose arrays have an axis, also where those of ``space`` are numbers."""
    if isinstance(space, spaces.Discrete):
        return spaces.MultiDiscrete([space.n], dtype=space.dtype.type, start=[space.start])
    return space


def as_choice(strategy: Any) -> Any:
    """Return a strategy as `HindsightReplayBuffer` takes it; SB3 has an enum, and minds no capitals."""
    if isinstance(strategy, GoalSelectionStrategy):
        return strategy.name.lower()
    return strategy.lower() if isinstance(strategy, str) else strategy


class Ignored:
    """What takes assignments and forgets them."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Do nothing: `HerReplayBuffer.add` notices by itself that an episode was broken off."""
