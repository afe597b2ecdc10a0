"""Outcomes: those of some arms of a study, one for each seed, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from examples.reproduce.runs import Outcome

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outcomes:
    """Some outcomes; S of them in what follows.

    Attributes:
        all: In the order of the study's runs.
    """

    all: Sequence[Outcome]

    def of(self, **labels: str | int) -> Outcomes:
        """Return those with these labels."""
        return Outcomes([each for each in self.all if labels.items() <= each.run.labels.items()])

    def by(self, label: str) -> dict[Any, Outcomes]:
        """Return the outcomes for each value of a label, in order of appearance."""
        values = dict.fromkeys(each.run.labels[label] for each in self.all)
        return {value: self.of(**{label: value}) for value in values}

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def success(self) -> Floats:
        """Success rates of the final policies, (S,)."""
        return np.array([each.final.success_rate for each in self.all])

    @property
    def env_steps(self) -> Floats:
        """Environment steps until the end, (S,)."""
        return np.array([each.final.env_steps for each in self.all], float)

    @property
    def processor_seconds(self) -> Floats:
        """Processor seconds in all, (S,)."""
        return np.array([each.final.processor_seconds for each in self.all])

    def curve(self, points: int = 0) -> tuple[Floats, Floats]:
        """Return environment steps (P,), and the success rates (P, S) that were seen there.

        A training that ended before others goes on with its last success rate.

        Args:
            points: P, if it is to be more than those of the longest training.
        """
        count = max(points, *(len(each.curve) for each in self.all))
        longest = max((each.curve for each in self.all), key=len)
        steps = [point.env_steps for point in longest]
        steps += [steps[-1] + (i + 1) * (steps[-1] // len(steps)) for i in range(count - len(steps))]
        return np.array(steps, float), np.stack([_success(each, count) for each in self.all], axis=1)

    def mean_over_training(self) -> Floats:
        """Return the means of all evaluations within the budget of steps, (S,)."""
        budget = max(-(-each.run.config.steps // each.run.config.steps_per_epoch) for each in self.all)
        means: Floats = self.curve(budget)[1].mean(axis=0)
        return means


def _success(outcome: Outcome, count: int) -> Floats:
    rates = [point.success_rate for point in outcome.curve]
    return np.array(rates + [rates[-1]] * (count - len(rates)))


def median(values: Floats) -> float | None:
    """Return the median, None of nothing."""
    return float(np.median(values)) if len(values) else None
