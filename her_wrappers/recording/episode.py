"""Episode: the record of one finished episode."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from her_wrappers.data.trees import NUMBERS, Tree


@dataclass(frozen=True, eq=False)
class Episode:
    """One episode: T steps and T + 1 states.

    Attributes:
        observations: Observations in states 0..T: tree of (T + 1, ...) arrays in the structure of the
            observation space.
        actions: Actions: tree of (T, ...) arrays in the structure of the action space.
        rewards: (T,) numbers, rewards that the environment returned; float64 if a recorder made the episode.
        terminated: Whether the last step terminated the episode.
        truncated: Whether the episode was truncated after the last step, by the environment or by the
            recorder.
        infos: Arrays (T, ...) of the recorded infos, by key.
        reset_info: Recorded infos of the first state, by key, from the reset. If a recorder's
            ``max_episode_steps`` truncated the previous episode, they come from the last step of that one.

    Raises:
        TypeError: A flag is not a bool, an array is not a NumPy array, or ``infos`` or ``reset_info`` is not
            a dict whose keys are strings.
        ValueError: The episode has no steps, ``rewards`` are not (T,) numbers, ``actions`` or ``infos`` do
            not have T rows, or ``observations`` do not have T + 1 rows.
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
                raise TypeError(f"{name} must be a bool, got {getattr(self, name)!r}")
        require_rows("observations", self.observations, len(self) + 1)
        require_rows("actions", self.actions, len(self))
        require_infos("infos", self.infos)
        require_rows("infos", self.infos, len(self))
        require_infos("reset_info", self.reset_info)

    def __len__(self) -> int:
        """Return the number of steps, T."""
        return len(self.rewards)

    def __repr__(self) -> str:
        return (
            f"<Episode steps={len(self)} return={self.rewards.sum():g} "
            f"terminated={bool(self.terminated)} truncated={bool(self.truncated)}>"
        )


def require_numbers(name: str, values: np.ndarray) -> None:
    """Raise an error unless ``values``, called ``name`` in messages, is an array (T,) of numbers, T >= 1."""
    require_array(name, values)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"{name} must be a non-empty 1-D array, got shape {values.shape}")
    if values.dtype.kind not in NUMBERS:
        raise ValueError(f"{name} must hold numbers, got dtype {values.dtype}")


def require_array(name: str, value: object) -> None:
    """Raise TypeError unless ``value`` is an array; ``name`` is its name in the message."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, got {type(value).__name__}; use np.asarray")


def require_infos(name: str, infos: object) -> None:
    """Raise TypeError unless ``infos``, called ``name`` in messages, is a dict of arrays with string keys."""
    if not isinstance(infos, dict):
        raise TypeError(f"{name} must be a dict of arrays, got {type(infos).__name__}")
    for key, value in infos.items():
        if not isinstance(key, str):
            raise TypeError(f"the keys of {name} must be strings, got {key!r}")
        require_array(f"{name}/{key}", value)


def require_rows(name: str, tree: Tree, rows: int) -> None:
    """Raise an error unless all leaves of ``tree`` are arrays with ``rows`` rows; messages use ``name``."""
    if isinstance(tree, dict | tuple):
        for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree):
            require_rows(f"{name}/{key}", part, rows)
        return
    require_array(name, tree)
    if tree.shape[:1] != (rows,):
        raise ValueError(
            f"{name} must have {rows} rows, got shape {tree.shape}; rewards, actions and infos need one row "
            "per step, and observations need one additional row per episode"
        )
