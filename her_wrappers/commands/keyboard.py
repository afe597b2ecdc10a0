"""Actions from keys: number keys choose one of several actions, arrow keys move in the plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import typer
from gymnasium import spaces

from her_envs.canvas import Keys


class KeyMap(ABC):
    """Translates pressed keys into actions.

    Attributes:
        help: Description of the keys, in one line.
    """

    help: str

    @abstractmethod
    def action(self, keys: Keys) -> Any:
        """Return an action for the state of the keyboard, or None if no key chooses an action."""

    @property
    def hint(self) -> str:
        """Text that the player needs to see next to the picture; empty by default."""
        return ""


class ArrowKeys(KeyMap):
    """Arrow keys set the two components of an action.

    Args:
        space: A Box of shape (2,).
    """

    help = "arrow keys move"
    _moves = {"left": (-1, 0), "right": (1, 0), "down": (0, -1), "up": (0, 1)}  # noqa: RUF012 - never changed

    def __init__(self, space: spaces.Box) -> None:
        self._space = space

    def action(self, keys: Keys) -> Any:
        """Return the action of the arrow keys that are held or were pressed, or None without arrow keys.

        An arrow sets its component to the bound of the space in its direction; other components are 0.
        """
        arrows = (keys.held | set(keys.pressed)) & self._moves.keys()
        if not arrows:
            return None
        move = np.sum([self._moves[arrow] for arrow in arrows], axis=0)
        return np.where(move < 0, self._space.low, np.where(move > 0, self._space.high, 0)).astype(np.float32)


class NumberKeys(KeyMap):
    """Number keys choose an action; or left and right move a cursor, and space chooses.

    Args:
        count: Number of actions.
        make_action: Returns the action of a number in 0..count - 1.
    """

    help = "number keys choose, or left and right move the cursor and space chooses"

    def __init__(self, count: int, make_action: Callable[[int], Any]) -> None:
        self._count = count
        self._make_action = make_action
        self._cursor = 0

    def action(self, keys: Keys) -> Any:
        """Return the action that the pressed keys choose, or None if they only move the cursor."""
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
        """Position of the cursor."""
        return f"cursor at {self._cursor}"


def key_map(space: spaces.Space[Any]) -> KeyMap:
    """Return the keys of an action space.

    Args:
        space: A Discrete space; a Box of shape (2,), with arrow keys; or another Box of shape (A,), where a
            number key sets one component to its upper bound, and the others to their lower bounds.

    Raises:
        typer.BadParameter: No keys are defined for the space.
    """
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return NumberKeys(int(space.n), lambda number: start + number)
    if isinstance(space, spaces.Box) and space.shape == (2,):
        return ArrowKeys(space)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return NumberKeys(space.shape[0], lambda number: _one_high(space, number))
    raise typer.BadParameter(
        f"the keyboard needs a Discrete action space or a Box of shape (A,), got {space}; "
        "pass --policy to watch a policy"
    )


def _one_high(space: spaces.Box, number: int) -> np.ndarray:
    action = space.low.copy()
    action[number] = space.high[number]
    return action
