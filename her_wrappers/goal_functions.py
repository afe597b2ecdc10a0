"""Goal functions for batches: ``compute_terminated`` made to return one bool for each row of a batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from her_wrappers.arguments import require_function
from her_wrappers.trees import leaf_arrays, map_tree
from her_wrappers.user_warning import warn_user

GoalFunction: TypeAlias = Callable[[Any, Any, Any], Any]
"""Function ``(achieved_goal, desired_goal, info)`` that returns (B,) rewards or bools for a batch of goals.

Goal functions are called by position, since gymnasium-robotics names the second parameter ``goal``.
"""


def batched_terminated(function: GoalFunction | None, goal_space: spaces.Space[Any]) -> GoalFunction | None:
    """Return a version of ``compute_terminated`` that returns one bool for each row of a batch.

    The function is called with batches of 2 and 3 sampled goals and with empty infos. Some functions accept
    single goals only: functions of gymnasium-robotics return one bool for any batch, and functions that use
    ``if`` on the result of a comparison of goals raise.

    Returns:
        ``function`` if it accepts batches; a `BatchedTermination` if it does not, or raises on these batches;
        None if ``function`` is None or raises NotImplementedError.

    Raises:
        TypeError: ``function`` does not take three arguments.
        ValueError: ``function`` returns another shape than () or (N,) for N goals.
    """
    if function is None or isinstance(function, BatchedTermination):
        return function
    require_function("compute_terminated", function)
    for count in (2, 3):
        goals = batch_space(goal_space, count)
        goals.seed(count)
        try:
            shape = np.shape(function(goals.sample(), goals.sample(), [{} for _ in range(count)]))
        except NotImplementedError:
            return None
        except Exception as error:  # a function of single goals can raise anything on a batch
            if not _takes_three_arguments(function):
                raise TypeError(
                    f"compute_terminated must be a function of (achieved_goal, desired_goal, info): {error}"
                ) from error
            return BatchedTermination(function)
        if shape == ():
            return BatchedTermination(function, is_rowwise=True)
        if shape != (count,):
            raise ValueError(
                f"compute_terminated must return shape ({count},) for {count} goals, got {shape}; "
                "reduce over the goal's own axes only"
            )
    return function


def _takes_three_arguments(function: GoalFunction) -> bool:
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # some builtin functions have no signature
        return True
    return True


class BatchedTermination:
    """Makes a function accept batches: if it accepts single goals only, it is called once for each row.

    If ``is_rowwise`` is None, the first calls with real infos decide: a function that returns a single value
    for a batch, or raises on the batch but not on its first row, is called once for each row from then on. An
    error that does not occur again in a second call with the batch, such as a MemoryError, is raised, and the
    next call decides.

    Args:
        function: Function ``(achieved_goal, desired_goal, info)`` that returns bools of shape (B,) for a
            batch, or a bool for one goal.
        is_rowwise: Whether ``function`` accepts single goals only; None if this is unknown.
    """

    def __init__(self, function: GoalFunction, is_rowwise: bool | None = None) -> None:
        self._function = function
        self.is_rowwise = is_rowwise
        self._warned = False

    def __call__(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return bools of shape (B,), and warn once, at the first batch with B > 1, if the calls are slow.

        The infos are a list of B dicts, or a dict of arrays of length B.
        """
        if self.is_rowwise is None:
            values = self._decide(achieved_goal, desired_goal, info)
            if not self.is_rowwise:
                return values
        if not self.is_rowwise:
            return self._function(achieved_goal, desired_goal, info)
        rows = list(_rows(achieved_goal, desired_goal, info))
        if not self._warned and len(rows) > 1:
            self._warned = True
            warn_user(
                "compute_terminated accepts single goals only, so it is called once for each row, "
                f"{len(rows)} times for this batch; return one bool per row to make it fast"
            )
        return np.array([bool(self._function(*row)) for row in rows], dtype=bool)

    def _decide(self, *batch: Any) -> Any:
        """Call the function with a batch and return the values; set ``is_rowwise`` if the result shows it."""
        try:
            values = self._function(*batch)
        except Exception:  # a function of single goals can raise anything on a batch
            if not self._accepts_single_goals_only(*batch):
                raise
            values = None
        if np.shape(values) == ():
            self.is_rowwise = True
        elif len(values) > 1:  # a batch of one goal can pass for a single goal
            self.is_rowwise = False
        return values

    def _accepts_single_goals_only(self, *batch: Any) -> bool:
        """Whether the function returns a single value for the first row, and raises on the batch again."""
        try:
            if np.shape(self._function(*next(_rows(*batch)))) != ():
                return False
        except Exception:
            return False
        try:
            self._function(*batch)
        except Exception:
            return True
        return False


def _rows(achieved_goal: Any, desired_goal: Any, info: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the arguments for each row; ``info`` may be a list of dicts or a dict of columns."""
    for i in range(len(leaf_arrays(achieved_goal)[0])):
        goals = (map_tree(lambda rows: rows[i], goal) for goal in (achieved_goal, desired_goal))  # noqa: B023
        is_columns = isinstance(info, Mapping)
        yield *goals, {key: column[i] for key, column in info.items()} if is_columns else info[i]
