"""Draw: the steps of batches, and where they and the states that supply their goals stand in a storage."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Draw(NamedTuple):
    """The B rows of a batch, relabeled ones first; or of several batches, on a leading axis.

    Arrays, but where records are on a device: `EpisodeStorage.send` brings all there that is typed Any.

    Attributes:
        numbers: (B,) numbers of the steps.
        states: (2, B) positions of the states before and after them.
        places: (B,) places of their segments.
        first_index: (B,) numbers of the first steps of their episodes.
        sources: (B,) positions of the states that supply new goals; anything where none do.
        goal_index: (B,) numbers of the steps that led there; anything where there are none.
        part: (B,) which part of the shares each row is in.
        relabeled: (B,) bool, whether that is one which gets new goals.
        host_numbers: (B,) the numbers once more; an array always.
        left: (B,) how many steps there are from each on, itself included, that may have its goal: to the end
            of the episode for a new one, else until the episode changes its goal. Anything without windows.
        discounts: (B,) float32, those of single steps of which none terminates: memory for a batch's own.
        weights: (B,) float32 ones: the same.
    """

    numbers: Any
    states: Any
    places: Any
    first_index: np.ndarray
    sources: Any
    goal_index: np.ndarray
    part: np.ndarray
    relabeled: Any
    host_numbers: np.ndarray
    left: np.ndarray
    discounts: Any
    weights: Any


class Located(NamedTuple):
    """Steps, with what strategies need to know of them.

    Attributes:
        numbers: (n,) their numbers.
        places: (n,) places of their segments.
        segments: (n,) their segments.
        states: (n,) positions of the states in which they begin.
    """

    numbers: np.ndarray
    places: np.ndarray
    segments: np.ndarray
    states: np.ndarray

    def take(self, rows: np.ndarray) -> Located:
        """Return some of them."""
        return Located(*[column[rows] for column in self])
