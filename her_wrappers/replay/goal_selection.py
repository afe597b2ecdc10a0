"""Goal selection: the state of an episode whose achieved goal replaces the desired goal of a transition.

A strategy within the episode maps indices of steps to indices of states. To add a strategy, write a function
like `future` and list it in `STRATEGIES`. The states of an episode of T steps are numbered 0..T: step t leads
from state t to state t + 1.

Source: Andrychowicz et al. 2017, section 4.5, https://arxiv.org/abs/1707.01495
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.integer[Any]]
Strategy: TypeAlias = Callable[[Ints, Ints, np.random.Generator], Ints]
"""``(t, length, rng) -> s``, all (B,) integers, with ``0 <= t < length`` and ``1 <= s <= length``."""


def uniform_below(bound: np.ndarray | int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sample integers from 0 to ``bound`` - 1 uniformly; three times as fast as ``rng.integers``.

    No result equals the bound: n times the largest float64 below 1 is rounded to a number below n.

    Args:
        bound: Integer of at least 1, or (count,) such integers.
        count: Number of integers to sample.
        rng: Source of all randomness.
    """
    fractions = rng.random(count)
    integers: NDArray[np.int64] = np.multiply(fractions, bound, out=fractions).astype(np.int64)
    return integers


def future(t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
    """Pick a state reached after step ``t``, uniformly.

    Args:
        t: (B,) step within its episode.
        length: (B,) number of steps of that episode.
        rng: Random generator; equal seeds give equal goals.

    Returns:
        (B,) state ``s`` with ``t < s <= length``.

    Example:
        >>> future(np.array([0, 3]), np.array([4, 4]), np.random.default_rng(0))
        array([3, 4])
    """
    return t + 1 + uniform_below(length - t, len(t), rng)


def final(t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
    """Pick the last state of the episode.

    Args:
        t: (B,) step within its episode.
        length: (B,) number of steps of that episode.
        rng: Not used.

    Returns:
        (B,) ``length``.
    """
    return length


def episode(t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
    """Pick any state of the episode except the first, uniformly.

    Args:
        t: (B,) step within its episode; not used.
        length: (B,) number of steps of that episode.
        rng: Random generator; equal seeds give equal goals.

    Returns:
        (B,) state ``s`` with ``1 <= s <= length``.
    """
    return 1 + uniform_below(length, len(t), rng)


@dataclass(frozen=True)
class Geometric:
    """Pick a state d steps ahead with probability in proportion to gamma^(d - 1), within the episode.

    This is the discounted distribution of future states, from which C-learning (arXiv 2011.08909) and OGBench
    (arXiv 2410.20092) sample goals, renormalized over the remaining steps of the episode.

    Attributes:
        gamma: Number in (0, 1); 1 / (1 - gamma) is the mean distance [steps] in an endless episode.

    Raises:
        ValueError: ``gamma`` lies outside (0, 1).
    """

    gamma: float = 0.99

    def __post_init__(self) -> None:
        if not (isinstance(self.gamma, Real) and 0 < self.gamma < 1):
            raise ValueError(f"gamma of Geometric must lie in (0, 1), got {self.gamma!r}")
        object.__setattr__(self, "gamma", float(self.gamma))  # the type that a saved file has

    def __call__(self, t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
        """Pick states, see `future`."""
        left = length - t
        # The inverse of the distribution function (1 - gamma^d) / (1 - gamma^left).
        tail = 1 - rng.random(len(left)) * -np.expm1(left * np.log(self.gamma))
        ahead = np.ceil(np.log(tail) / np.log(self.gamma)).astype(np.int64)
        states: Ints = t + ahead.clip(1, left)  # rounding may leave the range by one
        return states


STRATEGIES: dict[str, Strategy] = {
    "future": future,
    "final": final,
    "episode": episode,
    "geometric": Geometric(),
}


@dataclass(frozen=True)
class ValidatedStrategy:
    """A user's strategy, whose states are validated and which gets read-only arrays.

    Attributes:
        strategy: The user's function.
    """

    strategy: Strategy

    def __call__(self, t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
        """Pick states, see `future`.

        Raises:
            ValueError: The strategy does not return (B,) integers in 1..length.
        """
        given = t.view(), length.view()
        for array in given:
            array.setflags(write=False)
        states = np.asarray(self.strategy(*given, rng))
        if states.shape != t.shape or states.dtype.kind not in "iu":
            raise ValueError(
                f"a goal selection strategy must return {t.shape} whole numbers, "
                f"got {states.dtype} of shape {states.shape}"
            )
        outside = np.flatnonzero((states < 1) | (states > length))
        if outside.size:
            i = outside[0]
            raise ValueError(
                f"a goal selection strategy must return states in 1..length, got {states[i]} "
                f"at step {t[i]} of an episode of length {length[i]}"
            )
        return states.astype(np.int64, copy=False)
