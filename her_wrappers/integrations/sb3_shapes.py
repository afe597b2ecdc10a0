"""Shapes and names for Stable-Baselines3: transitions as it stores them, strategies as it calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.preprocessing import get_action_dim
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

from her_wrappers.recording.batch_columns import as_batch
from her_wrappers.spaces import SpaceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from her_wrappers.infos import Where


class Sb3Shapes:
    """What the transitions of some environments look like: numbers have an axis, actions no more than one.

    Args:
        observation_space: Dict of one environment.
        action_space: Of one environment.
        n_envs: Number of environments, N.

    Attributes:
        states: Space of one stored observation.
        actions: Space of one stored action.
        state_spec: Leaves of ``states``.
        action_spec: The leaf of ``actions``.
    """

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Space[Any], n_envs: int) -> None:
        self.states = spaces.Dict({key: _with_axis(part) for key, part in observation_space.items()})
        self.actions = _with_axis(action_space)
        self._action_shape = n_envs, get_action_dim(action_space)
        if isinstance(action_space, spaces.Box):
            # SB3 turns doubles into floats, and what comes is scaled to this range, whatever the space's.
            dtype: Any = ReplayBuffer._maybe_cast_dtype(action_space.dtype)  # noqa: SLF001 - SB3's own rule
            self.actions = spaces.Box(-1, 1, self._action_shape[1:], dtype)
        self.state_spec = SpaceSpec.of("observation", self.states)
        self.action_spec = SpaceSpec.of("action", self.actions)
        self._n_envs = n_envs
        self._parts = [(str(leaf.path[0]), (n_envs, *leaf.shape), leaf.dtype) for leaf in self.state_spec]
        (self._action_leaf,) = self.action_spec

    def read_states(self, obs: Mapping[str, Any], where: Where) -> list[bytes]:
        """Return the bytes of each leaf of the observations of N environments, as they are stored.

        Args:
            obs: The observations.
            where: Says where an environment is, for messages.

        Raises:
            ValueError: They do not fit their space.
        """
        row = [
            value.tobytes()
            for key, shape, dtype in self._parts
            if type(value := obs.get(key)) is np.ndarray and value.dtype is dtype and value.shape == shape
        ]
        return row if len(row) == len(self._parts) else self._read_others(obs, where)

    def read_actions(self, action: Any, where: Where) -> list[bytes]:
        """Return the bytes of the actions of N environments, as they are stored.

        Raises:
            ValueError: They are not so many numbers, or do not fit their space; floats may be rounded.
        """
        actions, leaf = np.asarray(action), self._action_leaf
        if actions.size != self._action_shape[0] * self._action_shape[1]:
            raise ValueError(f"action must have shape {self._action_shape}, got {actions.shape}")
        if actions.dtype is not leaf.dtype:
            rows = actions.reshape(self._action_shape)
            actions = as_batch(leaf, rows, count=self._n_envs, where=where, rounding=True)
        return [actions.tobytes()]

    def _read_others(self, obs: Mapping[str, Any], where: Where) -> list[bytes]:
        """Read observations of other shapes and dtypes.

        Raises:
            ValueError: They do not fit their space.
        """
        states = dict(obs)
        for key, shape, dtype in self._parts:
            value = obs.get(key)
            if type(value) is np.ndarray:
                if value.dtype.kind == dtype.kind == "f":  # DummyVecEnv rounds, SubprocVecEnv leaves it to us
                    value = value.astype(dtype)
                states[key] = value.reshape(shape) if value.shape == shape[:1] else value
        leaves = [(leaf, leaf.find(states, "in the batch")) for leaf in self.state_spec]
        return [as_batch(leaf, value, count=self._n_envs, where=where).tobytes() for leaf, value in leaves]


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
