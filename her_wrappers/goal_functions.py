"""Goal functions for batches: ``compute_terminated`` made to return one bool for each row of a batch."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Mapping
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
    single goals only: those of gymnasium-robotics return a single bool for any batch, and functions that use
    ``if`` on the result of a comparison of goals raise.

    Args:
        function: ``compute_terminated`` of an environment or of the user, or None.
        goal_space: Space of one goal.

    Returns:
        ``function`` if it accepts batches; a `LoopedGoalFunction` if it accepts single goals only; a
        `LazilyVectorizedGoalFunction` if the calls with empty infos raise and thus show neither; None if
        ``function`` is None or raises NotImplementedError.

    Raises:
        TypeError: ``function`` is not callable with three arguments.
        ValueError: ``function`` returns a shape other than () and (N,) for N goals.
    """
    if function is None or isinstance(function, LoopedGoalFunction | LazilyVectorizedGoalFunction):
        return function
    require_function("compute_terminated", function)
    for count in (2, 3):
        try:
            shape = _probe(function, goal_space, count)
        except NotImplementedError:
            return None
        except Exception as error:  # a function of single goals can raise anything on a batch
            if not _takes_three_arguments(function):
                raise TypeError(
                    f"compute_terminated must be a function of (achieved_goal, desired_goal, info): {error}"
                ) from error
            return _without_batches(function, goal_space)
        if shape == ():
            return LoopedGoalFunction(function)
        if shape != (count,):
            raise ValueError(
                f"compute_terminated must return shape ({count},) for {count} goals, got {shape}; "
                "reduce over the goal's own axes only"
            )
    return function


def _probe(function: GoalFunction, goal_space: spaces.Space[Any], count: int | None) -> tuple[int, ...]:
    """Return the shape of the result for ``count`` sampled goals, or for one goal without a batch axis."""
    space = copy.deepcopy(goal_space) if count is None else batch_space(goal_space, count)
    space.seed(count or 1)
    infos: Any = {} if count is None else [{} for _ in range(count)]
    return np.shape(function(space.sample(), space.sample(), infos))


def _takes_three_arguments(function: GoalFunction) -> bool:
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # some builtin functions have no signature
        return True
    return True


def _without_batches(function: GoalFunction, goal_space: spaces.Space[Any]) -> GoalFunction:
    """Return a wrapper of a function that raised on batches of sampled goals with empty infos."""
    with contextlib.suppress(Exception):  # the function may need the infos of real steps
        if _probe(function, goal_space, None) == () and _raises_on_batches(function, goal_space):
            return LoopedGoalFunction(function)
    return LazilyVectorizedGoalFunction(function)


def _raises_on_batches(function: GoalFunction, goal_space: spaces.Space[Any]) -> bool:
    """Whether a batch raises again or gives a single value; otherwise the first error was temporary."""
    try:
        return _probe(function, goal_space, 2) == ()
    except Exception:
        return True


class LoopedGoalFunction:
    """A goal function for batches that calls a function of single goals once for each row.

    Args:
        function: Function ``(achieved_goal, desired_goal, info) -> bool`` of one goal.
    """

    def __init__(self, function: GoalFunction) -> None:
        self._function = function
        self._warned = False

    def __call__(self, achieved_goal: Any, desired_goal: Any, info: Any) -> np.ndarray:
        """Return bools of shape (B,), and warn once, at the first batch with B > 1, that the calls are slow.

        Args:
            achieved_goal: Achieved goals, with a leading axis of size B.
            desired_goal: Desired goals, with a leading axis of size B.
            info: List of B dicts, or dict of arrays of length B.
        """
        infos = _info_rows(info, _count(achieved_goal))
        if not self._warned and len(infos) > 1:
            self._warned = True
            warn_user(
                "compute_terminated accepts single goals only, so it is called once for each row, "
                f"{len(infos)} times for this batch; return one bool per row to make it fast"
            )
        rows = ((_row(achieved_goal, i), _row(desired_goal, i), row) for i, row in enumerate(infos))
        return np.array([bool(self._function(*row)) for row in rows], dtype=bool)


class LazilyVectorizedGoalFunction:
    """A goal function whose first call with real infos decides whether the function accepts batches.

    A function that returns a single value for the batch, or raises on the batch and not on its first row, is
    called once for each row from then on. An error that a second call with the batch does not repeat, such as
    a MemoryError, is raised, and the next call decides.

    Args:
        function: Function ``(achieved_goal, desired_goal, info)`` that needs the infos of real steps, and
            returns bools of shape (B,) for a batch, or a bool for one goal.
    """

    def __init__(self, function: GoalFunction) -> None:
        self._function = function
        self._batched: GoalFunction | None = None

    def __call__(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return bools of shape (B,); the arguments are those of `LoopedGoalFunction`."""
        if self._batched is not None:
            return self._batched(achieved_goal, desired_goal, info)
        try:
            values = self._function(achieved_goal, desired_goal, info)
        except Exception:  # a function of single goals can raise anything on a batch
            if not self._takes_single_goals_only(achieved_goal, desired_goal, info):
                raise
            values = None
        if np.shape(values) == ():
            self._batched = LoopedGoalFunction(self._function)
            return self._batched(achieved_goal, desired_goal, info)
        self._batched = self._function
        return values

    def _takes_single_goals_only(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        """Whether the function returns a single value for the first row, and raises on the batch again."""
        infos = _info_rows(info, _count(achieved_goal))
        try:
            value = self._function(_row(achieved_goal, 0), _row(desired_goal, 0), infos[0])
        except Exception:
            return False
        if np.shape(value) != ():
            return False
        try:
            self._function(achieved_goal, desired_goal, info)
        except Exception:
            return True
        return False


def _info_rows(info: Any, count: int) -> list[Any]:
    """Return a list with one info for each row, also if ``info`` is a dict of columns."""
    if not isinstance(info, Mapping):
        return list(info)
    return [{key: column[i] for key, column in info.items()} for i in range(count)]


def _count(goals: Any) -> int:
    """Return the number of rows."""
    return len(leaf_arrays(goals)[0])


def _row(goals: Any, i: int) -> Any:
    return map_tree(lambda rows: rows[i], goals)
