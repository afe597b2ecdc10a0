"""Registry of the rules of the diagnosis, and the case that they judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Check, Rule, Severity
from her_wrappers.checker.registry import rule as checker_rule

if TYPE_CHECKING:
    from her_wrappers.diagnosis.facts import Facts

DIAGNOSIS_RULES: dict[str, Rule] = {}
"""All rules of the diagnosis, by code."""

FEW_EPISODES = 10
"""Number of episodes that rules about shares of episodes need."""

SOLVED = 0.9
"""Success rate from which a training counts as solved; rules with the need "unsolved" then do not apply."""

Row = Mapping[str, float]


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training; None, or False for ``normalizes``, if unknown.

    Attributes:
        gamma: Discount per step.
        clip_targets: Whether targets are clipped to the returns of rewards in [-1, 0].
        time_limit: Largest number of steps of an episode.
        batch_size: Number of transitions in an update.
        normalizes: Whether the agent normalizes its inputs, as all agents of `her train` do.
    """

    gamma: float | None = None
    clip_targets: bool | None = None
    time_limit: int | None = None
    batch_size: int | None = None
    normalizes: bool = False


@dataclass(frozen=True)
class SelfGoals:
    """Rewards of ``compute_reward`` for desired goals that equal the achieved goals, and for other goals.

    Attributes:
        equal: (B,) rewards where achieved and desired goal are equal.
        different: (B,) rewards of the same achieved goals with the desired goals of random steps.
    """

    equal: np.ndarray
    different: np.ndarray


@dataclass(frozen=True, eq=False)
class Case:
    """The facts of a target, which rules judge.

    Attributes:
        episodes: Facts of the episodes; None without episodes.
        options: Options of the training.
        history: A row for each evaluation of the training, as in ``progress.csv``; () if unknown.
        is_environment: Whether the policies of the checker collected the episodes from an environment.
        self_goals: Rewards of equal and of different goals; None if unknown.
    """

    episodes: Facts | None
    options: TrainingOptions = TrainingOptions()
    history: Sequence[Row] = ()
    is_environment: bool = False
    self_goals: SelfGoals | None = None

    @property
    def facts(self) -> Facts:
        """Facts of the episodes, for rules that need episodes.

        Raises:
            ValueError: The case has no episodes.
        """
        if self.episodes is None:
            raise ValueError("the target has no episodes")
        return self.episodes

    @cached_property
    def is_solved(self) -> bool:
        """Whether the success rate is at least `SOLVED`; False for an environment.

        The success rate is that of the last evaluation or, without evaluations, of the last quarter of the
        episodes.
        """
        if self.is_environment:
            return False
        rates = self.column("success_rate")
        if rates.size:
            return bool(rates[-1] >= SOLVED)
        if self.episodes is None:
            return False
        return float(self.facts.final_success[-(len(self.facts) // 4 + 1) :].mean()) >= SOLVED

    def column(self, name: str) -> np.ndarray:
        """Return the values of a column of the history, (m,) float64, without rows that lack the column.

        Args:
            name: Name of the column, such as ``"success_rate"``.
        """
        return np.array([row[name] for row in self.history if name in row], np.float64)

    def severity_of_exploration(self) -> Severity:
        """Return "warning" for an environment, where the policies may explore too little, else "error"."""
        return "warning" if self.is_environment else "error"

    def missing(self, need: str) -> str:
        """Return the reason why the case does not meet a need of rules, or an empty text if it does.

        Args:
            need: Key of `NEEDS`.
        """
        is_met, reason = NEEDS[need]
        return "" if is_met(self) else reason(self)

    @property
    def horizon(self) -> float:
        """Number of steps after which rewards count little, 1 / (1 - gamma); infinite if gamma is unknown."""
        return (
            np.inf if self.options.gamma is None or self.options.gamma >= 1 else 1 / (1 - self.options.gamma)
        )


def _episodes_missing(case: Case) -> str:
    count = 0 if case.episodes is None else len(case.episodes)
    return f"{count} episodes, and rules about shares of episodes need {FEW_EPISODES}"


NEEDS: dict[str, tuple[Callable[[Case], bool], Callable[[Case], str]]] = {
    "episode": (lambda case: case.episodes is not None, lambda case: "the target has no episodes"),
    "episodes": (
        lambda case: case.episodes is not None and len(case.facts) >= FEW_EPISODES,
        _episodes_missing,
    ),
    "success": (
        lambda case: case.episodes is not None and case.facts.success is not None,
        lambda case: "success is unknown: is_success was not recorded, and rewards are not sparse",
    ),
    "components": (
        lambda case: case.episodes is None or not case.facts.is_projected,
        lambda case: "goals have too many components to judge each",
    ),
    "unsolved": (lambda case: not case.is_solved, lambda case: "the training succeeds"),
    "environment": (lambda case: case.is_environment, lambda case: "the target is not an environment"),
    "history": (lambda case: bool(case.history), lambda case: "the target has no progress.csv of a training"),
    "gamma": (lambda case: case.options.gamma is not None, lambda case: "gamma is unknown; pass --gamma"),
    "clip_targets": (
        lambda case: bool(case.options.clip_targets),
        lambda case: "targets are not clipped, or this is unknown; pass --clip-targets",
    ),
}
"""Needs of rules, by name: whether a case meets the need, and the reason why a case does not meet it."""

rule: Callable[..., Callable[[Check], Check]] = partial(checker_rule, rules=DIAGNOSIS_RULES)
"""Decorator that registers a function of a `Case` as a rule; the arguments are the fields of `Rule`."""
