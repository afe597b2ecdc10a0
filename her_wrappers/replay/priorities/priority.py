"""Priority: how priorities of transitions become the odds with which they are drawn.

Source: Schaul et al. 2016, Prioritized Experience Replay, section 3, https://arxiv.org/abs/1511.05952
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Priority:
    """How priorities decide what is drawn: with probabilities in proportion to (priority + eps)^alpha.

    Attributes:
        alpha: In [0, 1]; 0 draws uniformly, 1 in proportion to priorities.
        beta: In [0, 1]; how far the weights of a batch make up for that. The paper raises it to 1 by the end
            of training: give ``sample`` another.
        eps: In [1e-30, 1]; what keeps transitions with priority 0 from never being drawn again.

    Raises:
        ValueError: One of them lies outside its range.
    """

    alpha: float = 0.6
    beta: float = 0.4
    eps: float = 1e-6

    def __post_init__(self) -> None:
        for name, lowest in (("alpha", 0), ("beta", 0), ("eps", 1e-30)):
            value = require_between(f"{name} of Priority", getattr(self, name), lowest, 1)
            object.__setattr__(self, name, value)  # with a shorter float, powers would be short too

    def scale(self, priorities: np.ndarray | float) -> Any:
        """Return what probabilities are in proportion to."""
        return (priorities + self.eps) ** self.alpha

    def scales_like(self, other: Priority | None) -> bool:
        """Whether priorities mean the same with both."""
        return other is not None and (self.alpha, self.eps) == (other.alpha, other.eps)


def require_priority(priority: object) -> None:
    """Refuse what is neither a `Priority` nor None.

    Raises:
        TypeError: It is not.
    """
    if not isinstance(priority, Priority | None):
        raise TypeError(f"prioritized must be a Priority or None, got {priority!r}; pass Priority()")


def require_between(name: str, value: object, lowest: float, highest: float) -> float:
    """Return a number in a range as a float.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not lowest <= float(value) <= highest:
        raise ValueError(f"{name} must lie in [{lowest:g}, {highest:g}], got {value!r}")
    return float(value)
