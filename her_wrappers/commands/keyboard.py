"""Actions from keys: numbers choose one of many, arrows move in the plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import typer
from gymnasium import spaces

from her_envs.canvas import Keys


class KeyMap(ABC):
    """What keys mean in an action space.

    Attributes:
        help: The keys, in one line.
    """

    help: str

    @abstractmethod
    def action(self, keys: Keys) -> Any:
        """Return the action that the keys ask for, or None."""

    @property
    def hint(self) -> str:
        """What the player needs to see beside the picture; nothing by default."""
        return ""


class ArrowKeys(KeyMap):
    """Arrows for the two components of an action, as long as they are held."""

    help = "arrow keys move"
    _moves = {"left": (-1, 0), "right": (1, 0), "down": (0, -1), "up": (0, 1)}  # noqa: RUF012 - never changed

    def __init__(self, space: spaces.Box) -> None:
        self._space = space

    def action(self, keys: Keys) -> Any:
        """Add up the arrows; None without one."""
        arrows = (keys.held | set(keys.pressed)) & self._moves.keys()
        if not arrows:
            return None
        move = np.sum([self._moves[arrow] for arrow in arrows], axis=0)
        return np.where(move < 0, self._space.low, np.where(move > 0, self._space.high, 0)).astype(np.float32)


class NumberKeys(KeyMap):
    """A number key chooses one of many, or the left and right arrow move a cursor and space chooses.

    Args:
        count: How many there are to choose from.
        make_action: Turns the number chosen into an action.
    """

    help = "number keys choose, or left and right move the cursor and space chooses"

    def __init__(self, count: int, make_action: Callable[[int], Any]) -> None:
        self._count = count
        self._make_action = make_action
        self._cursor = 0

    def action(self, keys: Keys) -> Any:
        """Follow the keys up to the first that chooses; None without one."""
        for key in keys.pressed:
            if key in {"left", "right"}:
                self._cursor = (self._cursor + (1 if key == "right" else -1)) % self._count
            elif key.isdecimal() and int(key) < self._count:
                return self._make_action(int(key))
            elif key in {"space", "up", "return"}:
                return self._make_action(self._cursor)
        return None

    @property
    def hint(self) -> str:
        """Where the cursor is."""
        return f"cursor at {self._cursor}"


def key_map(space: spaces.Space[Any]) -> KeyMap:
    """Choose the keys for an action space.

    Raises:
        typer.BadParameter: The space has no keys.
    """
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return NumberKeys(int(space.n), lambda number: start + number)
    if isinstance(space, spaces.Box) and space.shape == (2,):
        return ArrowKeys(space)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return NumberKeys(space.shape[0], lambda number: _one_high(space, number))
    raise typer.BadParameter(f"there are no keys for the action space {space}; watch a --policy instead")


def _one_high(space: spaces.Box, number: int) -> np.ndarray:
    action = space.low.copy()
    action[number] = space.high[number]
    return action
