"""Episode: one finished episode, the unit in which everything here is handed on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from her_wrappers.trees import Tree


@dataclass(frozen=True, eq=False)
class Episode:
    """T actions between T + 1 states.

    Attributes:
        observations: Tree of (T + 1, ...) arrays in the structure of the observation space: what the agent
            saw in states 0..T.
        actions: Tree of (T, ...) arrays.
        rewards: (T,) float64, as the environment paid them.
        terminated: Whether the task ended at the last step.
        truncated: Whether the episode was cut short there, by a limit or by whoever recorded it.
        infos: (T, ...) arrays of the infos that were asked for.
        reset_info: Those of them that came with the first state: from ``reset``, or from the step at which an
            endless episode was cut.

    Raises:
        TypeError: A flag is no bool.
        ValueError: The arrays do not describe at least one step of one episode.
    """

    observations: Tree
    actions: Tree
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    infos: dict[str, np.ndarray] = field(default_factory=dict)
    reset_info: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_numbers("rewards", self.rewards)
        for name in ("terminated", "truncated"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise TypeError(f"{name} must be one bool, of the last step, got {getattr(self, name)!r}")
        require_rows("observations", self.observations, len(self) + 1)
        require_rows("actions", self.actions, len(self))
        require_rows("infos", self.infos, len(self))

    def __len__(self) -> int:
        """Return the number of steps, T."""
        return len(self.rewards)


def require_numbers(name: str, values: np.ndarray) -> None:
    """Refuse what is not at least one number in a row.

    Raises:
        ValueError: It is not.
    """
    array = np.asarray(values)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{name} must have shape (T,) with T >= 1, got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")


def require_rows(name: str, tree: Tree, rows: int) -> None:
    """Refuse a tree of arrays that has a leaf of another length.

    Raises:
        ValueError: It has.
    """
    if isinstance(tree, dict | tuple):
        for part in tree.values() if isinstance(tree, dict) else tree:
            require_rows(name, part, rows)
    elif np.shape(tree)[:1] != (rows,):
        raise ValueError(f"{name} must have {rows} rows to go with the rewards, got shape {np.shape(tree)}")
