"""Episode: one finished episode, the unit in which everything here is handed on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from her_wrappers.trees import NUMBERS

if TYPE_CHECKING:
    from her_wrappers.trees import Tree

AnyEpisodes = TypeVar("AnyEpisodes")


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
        is_repeated: Whether a sink gets the episode for the second time, since an interrupt stopped the first
            call; not stored.

    Raises:
        TypeError: A flag is no bool, or what should be an array is none: lists, numbers and None are not.
        ValueError: The arrays do not describe at least one step of one episode.
    """

    observations: Tree
    actions: Tree
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    infos: dict[str, np.ndarray] = field(default_factory=dict)
    reset_info: dict[str, np.ndarray] = field(default_factory=dict)
    is_repeated: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_numbers("rewards", self.rewards)
        for name in ("terminated", "truncated"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise TypeError(f"{name} must be one bool, of the last step, got {getattr(self, name)!r}")
        require_rows("observations", self.observations, len(self) + 1)
        require_rows("actions", self.actions, len(self))
        require_infos("infos", self.infos)
        require_rows("infos", self.infos, len(self))
        require_infos("reset_info", self.reset_info)

    def __len__(self) -> int:
        """Return the number of steps, T."""
        return len(self.rewards)


def unchecked(kind: type[AnyEpisodes], **attributes: Any) -> AnyEpisodes:
    """Return an `Episode` or `Episodes` of parts that are known to go together; looking again takes time.

    Args:
        kind: Which of them.
        **attributes: All that it has.
    """
    made = object.__new__(kind)
    made.__dict__.update(attributes)
    return made


def require_numbers(name: str, values: np.ndarray) -> None:
    """Refuse what is not at least one number in a row.

    Raises:
        TypeError: It is no array.
        ValueError: It is not.
    """
    require_array(name, values)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"{name} must have shape (T,) with T >= 1, got {values.shape}")
    if values.dtype.kind not in NUMBERS:
        raise ValueError(f"{name} must hold numbers, got dtype {values.dtype}")


def require_array(name: str, value: object) -> None:
    """Refuse what is no array.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, got {type(value).__name__}; use np.asarray")


def require_infos(name: str, infos: object) -> None:
    """Refuse what is no dict of arrays.

    Raises:
        TypeError: It is none, or has a key that is no string or a value that is no array.
    """
    if not isinstance(infos, dict):
        raise TypeError(f"{name} must be a dict of arrays, got {type(infos).__name__}")
    for key, value in infos.items():
        if not isinstance(key, str):
            raise TypeError(f"{name} must have keys that are strings, got {key!r}")
        require_array(f"{name}/{key}", value)


def require_rows(name: str, tree: Tree, rows: int) -> None:
    """Refuse a tree of arrays that has a leaf of another length.

    Raises:
        TypeError: It has a leaf that is no array.
        ValueError: It has.
    """
    if isinstance(tree, dict | tuple):
        for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree):
            require_rows(f"{name}/{key}", part, rows)
        return
    require_array(name, tree)
    if tree.shape[:1] != (rows,):
        raise ValueError(f"{name} must have {rows} rows to go with the rewards, got shape {tree.shape}")
