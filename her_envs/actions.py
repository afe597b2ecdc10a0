"""Validation of actions: Box actions are clipped, invalid actions raise an error."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


class ActionValidator:
    """Validates actions of one environment or of N environments.

    Args:
        space: Action space of one environment.

    Raises:
        TypeError: ``space`` is neither a Box nor a Discrete.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._low: Any
        self._high: Any
        if isinstance(space, spaces.Box):
            self._low, self._high = _scalar_if_uniform(space.low), _scalar_if_uniform(space.high)
        elif isinstance(space, spaces.Discrete):
            self._low, self._high = int(space.start), int(space.start + space.n - 1)
        else:
            raise TypeError(f"action space must be Box or Discrete, got {space}")
        self._is_box = isinstance(space, spaces.Box)
        self._shape, self._dtype = space.shape or (), space.dtype

    def validate_one(self, action: Any) -> np.ndarray:
        """Return a valid batch of one action.

        Args:
            action: (A,) Box action, which is clipped, or a single Discrete action.

        Returns:
            (1, A) or (1,).

        Raises:
            ValueError: The action has a wrong shape or dtype, contains NaN, or is a Discrete action that is
                out of range.
        """
        # Comparing a scalar takes a tenth of the time of comparing an array of one element.
        is_integer = isinstance(action, np.integer) or type(action) is int
        if is_integer and not self._is_box and self._low <= action <= self._high:
            return np.array([action])
        action = np.asarray(action)
        if action.shape != self._shape:
            raise ValueError(f"action must have shape {self._shape}, got {action.shape}")
        return self.validate_batch(action[None], 1)

    def validate_batch(self, actions: Any, num_envs: int) -> np.ndarray:
        """Return valid actions of all N environments.

        Args:
            actions: (N, A) Box actions, which are clipped, or (N,) Discrete actions.
            num_envs: Number of environments, N.

        Returns:
            (N, A) or (N,).

        Raises:
            ValueError: The actions have a wrong shape or dtype, contain NaN, or are Discrete actions that are
                out of range.
        """
        given: np.ndarray = np.asarray(actions)
        if given.shape != (num_envs, *self._shape):
            raise ValueError(f"actions must have shape {(num_envs, *self._shape)}, got {given.shape}")
        if self._is_box:
            if given.dtype.kind not in "fiu":
                raise ValueError(f"action must contain numbers, got dtype {given.dtype}")
            if np.isnan(given).any():
                raise ValueError(f"action must not contain NaN, got {given[np.isnan(given).any(-1)][0]}")
            clipped: np.ndarray = given.clip(self._low, self._high)
            return clipped.astype(self._dtype, copy=False)
        if given.dtype.kind not in "iu":
            raise ValueError(f"action must be an integer, got dtype {given.dtype}; cast it with int()")
        outside = (given < self._low) | (given > self._high)
        if outside.any():
            raise ValueError(f"action must lie in {self._low}..{self._high}, got {given[outside][0]}")
        return given


def _scalar_if_uniform(bound: np.ndarray) -> Any:
    # Clipping to a scalar is twenty times faster than clipping to a short array of equal bounds.
    return bound.flat[0] if bound.size and (bound == bound.flat[0]).all() else bound
