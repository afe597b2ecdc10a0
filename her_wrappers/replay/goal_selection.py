"""Goal selection: strategies that choose new goals for relabeled steps, and mixtures of strategies.

To add a strategy, write a function like `future` from steps to states of the same episode, and list it in
`STRATEGIES`; with `uniform_below`, it accepts arrays and tensors. Step t leads from state t to state t + 1.

Source: Andrychowicz et al. 2017, section 4.5, https://arxiv.org/abs/1707.01495
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from her_wrappers.support.arguments import require_count, require_number, require_result

Ints: TypeAlias = NDArray[np.integer[Any]]
# `(t, length, rng) -> s`, all (B,) integers, with `0 <= t < length` and `1 <= s <= length`
Strategy: TypeAlias = Callable[[Ints, Ints, np.random.Generator], Ints]


def uniform_below(bound: np.ndarray | int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sample ``count`` integers from 0 to ``bound`` - 1, three times as fast as ``rng.integers``.

    `DeviceReplayBuffer` passes a tensor of random numbers in [0, 1) as ``rng``, and gets a tensor.
    """
    if not isinstance(rng, np.random.Generator):
        return (rng * bound).long()
    fractions = rng.random(count)
    integers: NDArray[np.int64] = np.multiply(fractions, bound, out=fractions).astype(np.int64)
    return integers


def future(t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
    """For each of B steps ``t``, pick a random later state of its episode: ``s`` with ``t < s <= length``.

    ``t``, ``length`` and the result are (B,); ``length`` is the number of steps of each step's episode.

    Example:
        >>> future(np.array([0, 3]), np.array([4, 4]), np.random.default_rng(0))
        array([3, 4])
    """
    return t + 1 + uniform_below(length - t, len(t), rng)


def final(t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
    """For each step, pick the last state of its episode: ``s = length``; see `future`."""
    return length


def episode(t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
    """For each step, pick one of the states 1 to ``length`` of its episode at random; see `future`."""
    return 1 + uniform_below(length, len(t), rng)


@dataclass(frozen=True)
class Geometric:
    """Pick a state d steps ahead with probability in proportion to gamma^(d - 1), within the episode.

    C-learning (arXiv 2011.08909) and OGBench (arXiv 2410.20092) sample goals from this distribution, the
    discounted distribution of future states. Here, its probabilities are scaled so that their sum over the
    remaining steps of the episode is 1.

    Attributes:
        gamma: Number in (0, 1); 1 / (1 - gamma) is the mean distance [steps] in an endless episode.

    Raises:
        ValueError: ``gamma`` lies outside (0, 1).
    """

    gamma: float = 0.99

    def __post_init__(self) -> None:
        gamma = require_number("gamma of Geometric", self.gamma, "(0, 1)")
        object.__setattr__(self, "gamma", gamma)  # a float, as in a saved file

    def __call__(self, t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
        """For each step ``t``, pick a later state of its episode at random; arguments are as in `future`."""
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


def validated(strategy: Strategy, t: Ints, length: Ints, rng: np.random.Generator) -> Ints:
    """Return the states that a user's strategy chooses; raise ValueError unless all of them are valid."""
    given = t.view(), length.view()
    for array in given:
        array.setflags(write=False)
    try:
        chosen = strategy(*given, rng)
    except Exception as error:
        error.add_note("raised by a goal selection strategy, called with (t, length, rng)")
        raise
    require_result("a goal selection strategy", chosen, f"integers of shape {t.shape}")
    states = np.asarray(chosen)
    if states.shape != t.shape or states.dtype.kind not in "iu":
        got = f"dtype {states.dtype} and shape {states.shape}"
        raise ValueError(f"a goal selection strategy must return integers of shape {t.shape}, got {got}")
    outside = np.flatnonzero((states < 1) | (states > length))
    if outside.size:
        i = outside[0]
        valid = "integers from 1 to the length of the episode"
        got = f"{states[i]} for step {t[i]} of an episode of length {length[i]}"
        raise ValueError(f"a goal selection strategy must return {valid}, got {got}")
    return states.astype(np.int64, copy=False)


RANDOM = "random"  # name of the strategy that samples the achieved goal of any stored transition
DESIRED = "desired"  # name of the strategy that samples the desired goal of any stored transition
ORIGINAL = "original"  # name of the rows that are not relabeled
# Relabeled transitions per original one; the best value in section 4.5 of the HER paper
DEFAULT_SAMPLED_GOALS = 4


@dataclass(frozen=True)
class Mixture:
    """Several goal selection strategies, each for a share of the batch.

    Attributes:
        shares: Dict from each strategy, a function or a name such as ``"future"`` or ``"desired"``, to its
            share. The key ``"original"`` is for rows that are not relabeled: if the dict has this key, the
            values are shares of all rows; otherwise, they are shares of the relabeled rows. With a share of 0
            for ``"original"``, every row is relabeled.

    Raises:
        TypeError: ``shares`` is not a dict.
        ValueError: The share of ``"original"`` is not in [0, 1], another share is not in (0, 1], or the sum
            of the shares is not 1.

    Example:
        >>> mixture = Mixture({"future": 0.5, "desired": 0.3, "original": 0.2})
    """

    shares: Mapping[str | Strategy, float]

    def __post_init__(self) -> None:
        if not isinstance(self.shares, Mapping):
            raise TypeError(f"shares of a Mixture must be a dict {{strategy: share}}, got {self.shares!r}")
        # As Python floats: a float32 share would make other batches than the same share from a saved file.
        shares = {
            name: require_number(
                f"the share of {name!r} in a Mixture", share, "[0, 1]" if name == ORIGINAL else "(0, 1]"
            )
            for name, share in self.shares.items()
        }
        total = sum(shares.values())
        if not np.isclose(total, 1, rtol=0, atol=1e-9):
            raise ValueError(f"shares of a Mixture must sum to 1, got {total!r}; divide each by the sum")
        object.__setattr__(self, "shares", shares)


StrategyName: TypeAlias = Literal["future", "final", "episode", "geometric"]  # the keys of `STRATEGIES`
# The type of the argument `goal_selection_strategy`
GoalSelection: TypeAlias = StrategyName | Literal["random", "desired"] | Strategy | Mixture


class MixtureComponent(NamedTuple):
    """One strategy of a mixture, and the share of the rows whose goals it selects."""

    name: str
    select: Strategy | None  # the strategy within the episode; None for "random" and "desired"
    share: float  # share of all rows
    takes_desired: bool = False  # whether new goals are desired goals of stored transitions


class GoalMixture:
    """The strategies of relabeled rows and their shares of a batch; the remaining rows are original."""

    def __init__(self, strategy: GoalSelection, n_sampled_goal: int | None) -> None:
        if not (isinstance(strategy, str | Mixture) or callable(strategy)):
            expected = "a name, a function or a Mixture"
            raise TypeError(f"goal_selection_strategy must be {expected}, got {strategy!r}")
        mixture = strategy if isinstance(strategy, Mixture) else Mixture({strategy: 1.0})
        total = 1 - mixture.shares.get(ORIGINAL, 0.0)
        if ORIGINAL not in mixture.shares:
            k = DEFAULT_SAMPLED_GOALS if n_sampled_goal is None else n_sampled_goal
            k = require_count("n_sampled_goal", k, at_least=0)
            total = k / (k + 1)
        elif n_sampled_goal is not None:
            raise ValueError(
                "the share of relabeled rows must be given only once, got a Mixture with 'original' and "
                f"n_sampled_goal={n_sampled_goal!r}; leave n_sampled_goal out, or pass None"
            )
        shares = {key: share for key, share in mixture.shares.items() if key != ORIGINAL}
        scale = total / sum(shares.values()) if shares else 0.0
        components = [_component(key, share * scale) for key, share in shares.items()]
        # "desired" is the last component, next to the original rows: desired goals of both are read at once.
        self.components = sorted(components, key=lambda each: each.takes_desired) if total else []
        self.has_no_original = total > 1 - 1e-9  # whether all rows are relabeled
        # Number of components whose new goals are achieved goals: all except "desired".
        self.num_achieved = sum(not component.takes_desired for component in self.components)
        self.names = (*(component.name for component in self.components), ORIGINAL)
        self._ends = np.cumsum([0.0, *(component.share for component in self.components)])

    def sample_components(
        self, batches: int, batch_size: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, list[list[int]]]:
        """Sample how many rows of each batch get their goals from each component; return (component, counts).

        ``component``, (batches, batch_size), has the index of each row's component, in ascending order, and
        ``len(components)`` for original rows. ``counts`` has two numbers for each batch: of the rows whose
        new goal is an achieved goal, and of all relabeled rows.
        """
        # Column i is the number of rows with the components before i; column 0 is 0.
        ends = np.floor(batch_size * self._ends + rng.random((batches, 1))).astype(np.int64)
        rows = np.arange(batch_size)
        component = np.zeros((batches, batch_size), np.uint8)
        for end in ends.T[1:]:
            component += rows >= end[:, None]
        return component, [[each[self.num_achieved], each[-1]] for each in ends.tolist()]


def _component(strategy: str | Strategy, share: float) -> MixtureComponent:
    """Return the mixture component for ``strategy``, the name of a strategy or the user's function."""
    if callable(strategy):
        select = strategy if isinstance(strategy, Geometric) else functools.partial(validated, strategy)
        return MixtureComponent(getattr(strategy, "__name__", repr(strategy)), select, share)
    if not isinstance(strategy, str) or strategy not in (*STRATEGIES, RANDOM, DESIRED):
        names = ", ".join(map(repr, [*STRATEGIES, RANDOM, DESIRED]))
        choices = f"choose from {names}, a Mixture of them, or a function"
        raise ValueError(f"unknown goal_selection_strategy {strategy!r}; {choices}")
    return MixtureComponent(strategy, STRATEGIES.get(strategy), share, strategy == DESIRED)
