"""Steps: transitions copied out of episodes, and their goals."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

Records: TypeAlias = Any
"""A structured array, or the `TensorRecords` of a device. Fields of either are had by ``records[name]``."""


class Steps(NamedTuple):
    """B steps copied out of episodes, as records whose fields are views.

    Attributes:
        numbers: (B,) their numbers.
        records: (2, B) their states, what was done there, and what it brought; and the states after.
        desired: (2, B) their desired goals, before and after, as records.
        infos: (B,) infos that came with them, where any are kept.
    """

    numbers: Any
    records: Records
    desired: Records
    infos: Records | None


def before_and_after(states: np.ndarray) -> np.ndarray:
    """Return where the states stand in which (..., B) steps begin and end, (..., 2, B)."""
    return np.stack([states, states + 1], axis=-2)
