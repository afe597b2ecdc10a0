"""Calls of an environment's goal functions, with copies of the arguments and all errors recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.rollout import describe
from her_wrappers.checker.values import close, identical, show
from her_wrappers.goal_interface import find_function
from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from her_wrappers.goal_interface import AnyEnv, GoalFunction

ARGUMENTS = ("achieved_goal", "desired_goal", "info")


@dataclass(frozen=True, eq=False, slots=True)
class Answer:
    """The outcome of one call of ``compute_reward`` or ``compute_terminated``."""

    value: Any
    error: Exception | None = None
    mutated: str = ""  # the argument that the call changed

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the value; None if the call raised or the value is not an array."""
        if self.error is not None or self.value is None:
            return None
        try:
            return tuple(np.shape(self.value))
        except ValueError:
            return None

    @property
    def numbers(self) -> np.ndarray | None:
        """The value as float64; None if it does not consist of numbers."""
        if self.error is not None or self.value is None:
            return None
        try:
            return np.asarray(self.value, dtype=np.float64)
        except (TypeError, ValueError):
            return None

    @property
    def number(self) -> float | None:
        """The value of a call with one goal, also if it is an array of one number."""
        if isinstance(self.value, float):
            return float(self.value)
        numbers = self.numbers
        return float(numbers.reshape(-1)[0]) if numbers is not None and numbers.size == 1 else None

    @property
    def raised(self) -> str:
        """The error in one line, or an empty text."""
        return describe(self.error) if self.error is not None else ""


class Probe:
    """A goal function called with copies of its arguments, so that it cannot change the rollout."""

    def __init__(self, function: GoalFunction) -> None:
        self.function = function

    def __call__(self, achieved: Any, desired: Any, info: Any) -> Answer:
        """Call the function, by position."""
        given = (copy_tree(achieved), copy_tree(desired), copy_tree(info))
        try:
            value = self.function(*given)
        except Exception as error:
            return Answer(None, error)
        before = (achieved, desired, info)
        mutated = [
            name for name, old, new in zip(ARGUMENTS, before, given, strict=True) if not identical(old, new)
        ]
        return Answer(_own(value), None, mutated[0] if mutated else "")

    def on_views(self, achieved: Any, desired: Any, info: Any) -> Answer:
        """Call the function with the arrays themselves, which must be read-only."""
        try:
            return Answer(_own(self.function(achieved, desired, copy_tree(info))))
        except Exception as error:
            return Answer(None, error)


def _own(value: Any) -> Any:
    """Return a copy of an array, which later calls cannot change."""
    return value.copy() if isinstance(value, np.ndarray) else value


def probe(env: AnyEnv, name: str) -> Probe | None:
    """Return a probe of an environment's goal function, or None if the environment has no such function."""
    function = find_function(env, name)
    return Probe(function) if callable(function) else None


def same_answer(a: Answer, b: Answer) -> bool:
    """Whether two answers are equal up to rounding, or raised the same error."""
    if a.numbers is None or b.numbers is None:
        return a.numbers is b.numbers and a.raised == b.raised
    return close(a.numbers, b.numbers)


def describe_answer(answer: Answer) -> str:
    """Return the error or the value of an answer, for messages."""
    return answer.raised or show(answer.value)
