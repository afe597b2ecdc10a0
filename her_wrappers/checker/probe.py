"""Calls of goal functions with copies of the arguments, whose results and errors are recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.exceptions import describe
from her_wrappers.checker.values import close, identical, show
from her_wrappers.goal_interface import find_function
from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from her_wrappers.goal_interface import AnyEnv, GoalFunction

ARGUMENTS = ("achieved_goal", "desired_goal", "info")


@dataclass(frozen=True, eq=False, slots=True)
class CallResult:
    """Result of one call of ``compute_reward`` or ``compute_terminated``.

    Attributes:
        value: Returned value; None if the call raised.
        error: Exception that the call raised, or None.
        mutated_argument: Name of the first argument that the call changed, or an empty text.
    """

    value: Any
    error: Exception | None = None
    mutated_argument: str = ""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the value; None if the call raised, or the value is None or lists of different lengths."""
        if self.error is not None or self.value is None:
            return None
        try:
            return tuple(np.shape(self.value))
        except ValueError:
            return None

    @property
    def numbers(self) -> np.ndarray | None:
        """The value as a float64 array; None if the call raised or the value does not consist of numbers."""
        if self.error is not None or self.value is None:
            return None
        try:
            return np.asarray(self.value, dtype=np.float64)
        except (TypeError, ValueError):
            return None

    @property
    def number(self) -> float | None:
        """The value as a float; None unless the value consists of a single number."""
        if isinstance(self.value, float):
            return float(self.value)
        numbers = self.numbers
        return float(numbers.reshape(-1)[0]) if numbers is not None and numbers.size == 1 else None

    @property
    def error_text(self) -> str:
        """The error in one line, or an empty text without an error."""
        return describe(self.error) if self.error is not None else ""


class Probe:
    """A goal function that is called with copies of its arguments, so that it cannot change the rollout.

    Args:
        function: ``(achieved_goal, desired_goal, info)`` -> value, called by position.
    """

    def __init__(self, function: GoalFunction) -> None:
        self.function = function

    def __call__(self, achieved: Any, desired: Any, info: Any) -> CallResult:
        """Call the function with copies of the arguments: two goals and an info, or batches of them."""
        copies = (copy_tree(achieved), copy_tree(desired), copy_tree(info))
        try:
            value = self.function(*copies)
        except Exception as error:
            return CallResult(None, error)
        before = (achieved, desired, info)
        mutated = [
            name for name, old, new in zip(ARGUMENTS, before, copies, strict=True) if not identical(old, new)
        ]
        return CallResult(_copy_array(value), None, mutated[0] if mutated else "")

    def call_on_views(self, achieved: Any, desired: Any, info: Any) -> CallResult:
        """Call the function with the goals themselves, which must be read-only, and a copy of the info."""
        try:
            return CallResult(_copy_array(self.function(achieved, desired, copy_tree(info))))
        except Exception as error:
            return CallResult(None, error)


def _copy_array(value: Any) -> Any:
    """Return a copy of an array, so that later calls cannot change the value, or another value as it is."""
    return value.copy() if isinstance(value, np.ndarray) else value


def probe(env: AnyEnv, name: str) -> Probe | None:
    """Return a probe of an environment's goal function, or None if the environment has no such function.

    Args:
        env: A single or vector environment, with any wrappers.
        name: Name of the goal function, such as ``"compute_reward"``.
    """
    function = find_function(env, name)
    return Probe(function) if callable(function) else None


def same_result(a: CallResult, b: CallResult) -> bool:
    """Whether the values of two results are equal up to rounding, or both have the same error."""
    if a.numbers is None or b.numbers is None:
        return a.numbers is b.numbers and a.error_text == b.error_text
    return close(a.numbers, b.numbers)


def describe_result(result: CallResult) -> str:
    """Return the error or the value of a result, for messages."""
    return result.error_text or show(result.value)
