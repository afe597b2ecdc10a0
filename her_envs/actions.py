"""Validation of actions: Box actions are clipped, invalid actions raise an error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from gymnasium import spaces


class ActionValidator(ABC):
    """Validates actions of one environment or of N environments; see `make_action_validator`.

    Args:
        space: Action space of one environment.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._shape = space.shape or ()

    def validate_one(self, action: Any) -> np.ndarray:
        """Return one action as a valid batch of one action.

        Args:
            action: (A,) Box action, which is clipped, or a single Discrete action.

        Returns:
            (1, A) or (1,).

        Raises:
            ValueError: The action has a wrong shape or dtype, contains NaN, or is a Discrete action that is
                out of range.
        """
        action = np.asarray(action)
        if action.shape != self._shape:
            raise ValueError(f"action must have shape {self._shape}, got {action.shape}")
        return self._valid(action[None])

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
        actions = np.asarray(actions)
        if actions.shape != (num_envs, *self._shape):
            raise ValueError(f"actions must have shape {(num_envs, *self._shape)}, got {actions.shape}")
        return self._valid(actions)

    @abstractmethod
    def _valid(self, actions: np.ndarray) -> np.ndarray:
        """Return valid (N, A) actions, or raise ValueError."""


class _BoxValidator(ActionValidator):
    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space)
        self._dtype = space.dtype
        self._low, self._high = _scalar_if_uniform(space.low), _scalar_if_uniform(space.high)

    def _valid(self, actions: np.ndarray) -> np.ndarray:
        if actions.dtype.kind not in "fiu":
            raise ValueError(f"action must contain numbers, got dtype {actions.dtype}")
        if np.isnan(actions).any():
            raise ValueError(f"action must not contain NaN, got {actions[np.isnan(actions).any(-1)][0]}")
        return actions.clip(self._low, self._high).astype(self._dtype, copy=False)


class _DiscreteValidator(ActionValidator):
    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__(space)
        self._first, self._last = int(space.start), int(space.start + space.n - 1)

    def validate_one(self, action: Any) -> np.ndarray:
        # Comparing a scalar takes a tenth of the time of comparing an array of one element.
        is_whole = isinstance(action, np.integer) or type(action) is int
        if is_whole and self._first <= action <= self._last:
            return np.array([action])
        return super().validate_one(action)

    def _valid(self, actions: np.ndarray) -> np.ndarray:
        if actions.dtype.kind not in "iu":
            raise ValueError(f"action must be a whole number, got dtype {actions.dtype}; cast it with int()")
        outside = (actions < self._first) | (actions > self._last)
        if outside.any():
            raise ValueError(f"action must lie in {self._first}..{self._last}, got {actions[outside][0]}")
        return actions


def make_action_validator(space: spaces.Space[Any]) -> ActionValidator:
    """Return the validator for an action space.

    Args:
        space: Action space of one environment, Box or Discrete.

    Raises:
        TypeError: The space is neither a Box nor a Discrete.
    """
    if isinstance(space, spaces.Box):
        return _BoxValidator(space)
    if isinstance(space, spaces.Discrete):
        return _DiscreteValidator(space)
    raise TypeError(f"action space must be Box or Discrete, got {space}")


def _scalar_if_uniform(bound: np.ndarray) -> np.ndarray:
    # Clipping to a scalar is twenty times faster than clipping to a short array of equal bounds.
    return bound.flat[0] if bound.size and (bound == bound.flat[0]).all() else bound
