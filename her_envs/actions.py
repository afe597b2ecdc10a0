"""Actions on their way into a task: clipped to a Box, and refused where they make no sense."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from gymnasium import spaces


class ActionCheck(ABC):
    """The check of one environment's actions. Made by `action_check`.

    Args:
        space: Action space of one environment.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._shape = space.shape or ()

    def one(self, action: Any) -> np.ndarray:
        """Return one action as a valid batch of one, (A) -> (1, A).

        Raises:
            ValueError: It has a wrong shape or type, holds NaN, or is out of range.
        """
        action = np.asarray(action)
        if action.shape != self._shape:
            raise ValueError(f"action must have shape {self._shape}, got {action.shape}")
        return self._valid(action[None])

    def batch(self, actions: Any, num_envs: int) -> np.ndarray:
        """Return the actions of all environments as valid ones, (N, A) -> (N, A).

        Raises:
            ValueError: They have a wrong shape or type, hold NaN, or are out of range.
        """
        actions = np.asarray(actions)
        if actions.shape != (num_envs, *self._shape):
            raise ValueError(f"actions must have shape {(num_envs, *self._shape)}, got {actions.shape}")
        return self._valid(actions)

    @abstractmethod
    def _valid(self, actions: np.ndarray) -> np.ndarray:
        """Check the values of (N, A) actions."""


class _BoxCheck(ActionCheck):
    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space)
        self._dtype = space.dtype
        self._low, self._high = _one_number(space.low), _one_number(space.high)

    def _valid(self, actions: np.ndarray) -> np.ndarray:
        if actions.dtype.kind not in "fiu":
            raise ValueError(f"action must hold numbers, got dtype {actions.dtype}")
        if np.isnan(actions).any():
            raise ValueError(f"action must not hold NaN, got {actions[np.isnan(actions).any(-1)][0]}")
        return actions.clip(self._low, self._high).astype(self._dtype, copy=False)


class _DiscreteCheck(ActionCheck):
    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__(space)
        self._first, self._last = int(space.start), int(space.start + space.n - 1)

    def one(self, action: Any) -> np.ndarray:
        # Comparing a number costs a tenth of comparing an array of one.
        is_whole = isinstance(action, np.integer) or type(action) is int
        if is_whole and self._first <= action <= self._last:
            return np.array([action])
        return super().one(action)

    def _valid(self, actions: np.ndarray) -> np.ndarray:
        if actions.dtype.kind not in "iu":
            raise ValueError(f"action must be a whole number, got dtype {actions.dtype}; cast it with int()")
        outside = (actions < self._first) | (actions > self._last)
        if outside.any():
            raise ValueError(f"action must lie in {self._first}..{self._last}, got {actions[outside][0]}")
        return actions


def action_check(space: spaces.Space[Any]) -> ActionCheck:
    """Make the check for an action space.

    Args:
        space: Action space of one environment, Box or Discrete.

    Raises:
        TypeError: The space is of another kind.
    """
    if isinstance(space, spaces.Box):
        return _BoxCheck(space)
    if isinstance(space, spaces.Discrete):
        return _DiscreteCheck(space)
    raise TypeError(f"action space must be Box or Discrete, got {space}")


def _one_number(bound: np.ndarray) -> np.ndarray:
    # Clipping rows to one number is twenty times faster than to a short row of equal ones.
    return bound.flat[0] if bound.size and (bound == bound.flat[0]).all() else bound
