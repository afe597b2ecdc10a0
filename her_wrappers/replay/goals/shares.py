"""Shares: which part of every batch gets its goals from where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import numpy as np

from her_wrappers.arguments import require_count
from her_wrappers.replay.goals.selection import STRATEGIES, Checked, Geometric, Strategy

RANDOM = "random"
"""The one strategy that is not in-episode: the goal that any stored transition achieved next."""

ORIGINAL = "original"
"""Not relabeled."""

DEFAULT_SAMPLED_GOALS = 4
"""Relabeled transitions for every original one; best of those tried in the HER paper, section 4.5."""


@dataclass(frozen=True)
class Mixture:
    """Several goal selection strategies, each for its share of the batch.

    Attributes:
        shares: From strategies (names or functions, ``"random"``) to their shares. With ``"original"`` among
            them, for what is not relabeled, they are shares of all rows, else of the relabeled ones.

    Raises:
        TypeError: They are no dict.
        ValueError: A share is not in (0, 1], or they do not sum to 1.

    Example:
        >>> mixture = Mixture({"future": 0.6, "random": 0.2, "original": 0.2})
    """

    shares: Mapping[str | Strategy, float]

    def __post_init__(self) -> None:
        if not isinstance(self.shares, Mapping):
            raise TypeError(f"shares of a Mixture must be a dict of strategies, got {self.shares!r}")
        for name, share in self.shares.items():
            if not (isinstance(share, Real) and 0 < share <= 1):
                raise ValueError(f"shares of a Mixture must lie in (0, 1], got {share!r} for {name!r}")
        if not np.isclose(sum(self.shares.values()), 1, rtol=0, atol=1e-9):
            raise ValueError(f"shares of a Mixture must sum to 1, got {sum(self.shares.values()):g}")
        shares = {name: float(share) for name, share in self.shares.items()}  # shorter ones count no rows
        object.__setattr__(self, "shares", shares)


@dataclass(frozen=True)
class Part:
    """Rows of a batch that get their goals alike.

    Attributes:
        name: Of the strategy.
        select: The in-episode strategy, None for ``"random"``.
        share: Of all rows.
    """

    name: str
    select: Strategy | None
    share: float


GoalSelection: TypeAlias = str | Strategy | Mixture
"""What users give as ``goal_selection_strategy``."""


class Shares:
    """The relabeled parts of every batch; what they leave is original.

    Args:
        choice: A strategy or a mixture of them.
        n_sampled_goal: Relabeled rows for every original one, or None.
        her_ratio: Share of relabeled rows, or None.

    Raises:
        TypeError: The choice is no strategy at all.
        ValueError: There is no such strategy, or the share is given twice or outside its range.
    """

    def __init__(self, choice: GoalSelection, n_sampled_goal: int | None, her_ratio: float | None) -> None:
        if not (isinstance(choice, str | Mixture) or callable(choice)):
            raise TypeError(
                f"goal_selection_strategy must be a name, a function or a Mixture, got {choice!r}"
            )
        mixture = choice if isinstance(choice, Mixture) else Mixture({choice: 1.0})
        total = _relabeled_share(mixture, n_sampled_goal, her_ratio)
        strategies = {key: share for key, share in mixture.shares.items() if key != ORIGINAL}
        scale = total / sum(strategies.values()) if strategies else 0.0
        parts = [_find_strategy(key, share * scale) for key, share in strategies.items()]
        self.parts = parts if total else []
        self._ends = np.cumsum([part.share for part in self.parts])

    @property
    def relabels(self) -> bool:
        """Whether anything is relabeled."""
        return bool(self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts, and of what they leave."""
        return (*(part.name for part in self.parts), ORIGINAL)

    def draw(self, batches: int, batch_size: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the sizes of the parts of batches.

        One random number for all parts of a batch makes each exact in expectation, and off by less than one.

        Returns:
            (batches, batch_size) number of the part that each row is in; rows of no part come last.
        """
        ends = np.floor(batch_size * self._ends + rng.random((batches, 1))).astype(np.int64)
        rows = np.arange(batch_size)
        part = np.zeros((batches, batch_size), np.min_scalar_type(len(self.parts)))
        for end in ends.T:
            part += rows >= end[:, None]
        return part


def _relabeled_share(mixture: Mixture, n_sampled_goal: int | None, her_ratio: float | None) -> float:
    given = {"n_sampled_goal": n_sampled_goal, "her_ratio": her_ratio}
    names = [name for name, value in given.items() if value is not None]
    names += ["Mixture with a share of 'original'"] * (ORIGINAL in mixture.shares)
    if len(names) > 1:
        raise ValueError(f"the relabeled share must be given once, got {' and '.join(names)}")
    if ORIGINAL in mixture.shares:
        return 1 - mixture.shares[ORIGINAL]
    if her_ratio is not None:
        if not (isinstance(her_ratio, Real) and 0 <= her_ratio <= 1):
            raise ValueError(f"her_ratio must lie in [0, 1], got {her_ratio!r}")
        return float(her_ratio)
    k = DEFAULT_SAMPLED_GOALS if n_sampled_goal is None else n_sampled_goal
    k = require_count("n_sampled_goal", k, at_least=0)
    return k / (k + 1)


def _find_strategy(choice: str | Strategy, share: float) -> Part:
    """Return the part of a batch that chooses its goals by a strategy's name, or by the user's own.

    Raises:
        ValueError: There is no such strategy.
    """
    if callable(choice):
        select = choice if isinstance(choice, Geometric) else Checked(choice)
        return Part(getattr(choice, "__name__", repr(choice)), select, share)
    if not isinstance(choice, str) or (choice != RANDOM and choice not in STRATEGIES):
        names = ", ".join(map(repr, [*STRATEGIES, RANDOM]))
        raise ValueError(
            f"unknown goal_selection_strategy {choice!r}; "
            f"choose from {names}, a Mixture of them, or a function"
        )
    return Part(choice, STRATEGIES.get(choice), share)
