"""Functions that compare rewards, find trivial goals, and call ``compute_terminated`` for batches."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from her_wrappers.data.trees import leaf_arrays, map_tree
from her_wrappers.support.arguments import require_function, require_result
from her_wrappers.support.user_warning import warn_user

GoalFunction: TypeAlias = Callable[[Any, Any, Any], Any]
"""Function ``(achieved_goal, desired_goal, info)`` that returns (B,) rewards or bools for a batch of goals.

Always pass positional arguments, since gymnasium-robotics names the second parameter ``goal``.
"""


REWARD_TOLERANCE = 1e-4
"""Relative and absolute tolerance of recorded rewards, since observations may be rounded."""


def rewards_agree(recorded: Any, computed: Any) -> Any:
    """Return which recorded rewards equal computed ones up to rounding, (B,) bool; both have shape (B,)."""
    return abs(recorded - computed) <= REWARD_TOLERANCE * (1 + abs(computed))


def are_trivial(compute_reward: GoalFunction, achieved_goal: Any, goal: Any, info: Any) -> np.ndarray:
    """Return which of B new goals were already achieved before the step, in ``achieved_goal``, (B,) bool."""
    rewards = compute_reward(achieved_goal, goal, info), compute_reward(goal, goal, info)
    return np.asarray(np.equal(*rewards))


def batched_terminated(
    function: GoalFunction | None,
    goal_space: spaces.Space[Any],
    source: Any = None,
    name: str = "compute_terminated",
) -> GoalFunction | None:
    """Return a version of ``function`` that returns one bool per row; None if it is None or not implemented.

    ``function`` is called with 2 and 3 sampled goals and empty infos. A function for single goals returns one
    bool for the batch, as in gymnasium-robotics, or raises. ``source`` is a function that it only calls.
    """
    if function is None or isinstance(function, BatchedTermination):
        return function
    require_function(name, function)
    for count in (2, 3):
        goals = batch_space(goal_space, count)
        goals.seed(count)
        try:
            result = function(goals.sample(), goals.sample(), [{} for _ in range(count)])
            shape = np.shape(result)
        except NotImplementedError:
            return None
        except ConnectionError:
            raise  # the process that would call the function has ended
        except Exception as error:  # a function of single goals can raise anything on a batch
            try:
                inspect.signature(function).bind(None, None, None)
            except TypeError:
                raise TypeError(
                    f"{name} must be a function of (achieved_goal, desired_goal, info): {error}"
                ) from error
            except ValueError:  # some builtin functions have no signature
                pass
            return BatchedTermination(function)
        require_result(name, result, "(B,) bools")
        if shape == ():
            return BatchedTermination(
                function, needs_single_goals=True, reads_nothing=_reads_nothing(source or function)
            )
        if shape != (count,):
            raise ValueError(
                f"{name} must return shape ({count},), one bool for each of {count} goals, got "
                f"shape {shape}; keep the first axis, and reduce over all others"
            )
    return function


class BatchedTermination:
    """Makes a function accept batches: if it accepts only single goals, it is called once for each row.

    If ``needs_single_goals`` is None, results show it: the function returns a single value for a batch, or
    raises for a batch and returns a single value for the first row. If ``reads_nothing``, as in
    gymnasium-robotics, it is called once for a batch.
    """

    def __init__(
        self, function: GoalFunction, needs_single_goals: bool | None = None, reads_nothing: bool = False
    ) -> None:
        self._function = function
        self.needs_single_goals = needs_single_goals
        self._warned = False
        self._reads_nothing = reads_nothing

    def __call__(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return (B,) bools; ``info`` is a list of B dicts, or a dict of arrays of length B."""
        batch = achieved_goal, desired_goal, info
        if self._reads_nothing:
            return np.full(len(leaf_arrays(achieved_goal)[0]), bool(self._function(*batch)))
        if self.needs_single_goals is False:
            return self._function(*batch)
        if self.needs_single_goals is None:
            try:
                values = self._function(*batch)
            except Exception:  # a function of single goals can raise anything on a batch
                if not self._returns_one_value(*batch):
                    raise
            else:
                if np.shape(values) != ():
                    # A batch of one row can pass for a single goal.
                    self.needs_single_goals = False if len(values) > 1 else None
                    return values
            self.needs_single_goals = True
        rows = list(_rows(*batch))
        if not self._warned and len(rows) > 1:
            self._warned = True
            warn_user(
                "compute_terminated accepts single goals only, so it is called once for each row, "
                f"{len(rows)} times for this batch; to make it faster, return one bool per row of a batch"
            )
        return np.array([bool(self._function(*row)) for row in rows], dtype=bool)

    def _returns_one_value(self, *batch: Any) -> bool:
        try:
            return np.shape(self._function(*next(_rows(*batch)))) == ()
        except Exception:
            return False


def _reads_nothing(function: GoalFunction) -> bool:
    """Return whether a Python function reads no argument and no other variable, such as ``return False``."""
    code = getattr(function, "__code__", None)  # of a method too
    named = {*dis.haslocal, *dis.hasname, *dis.hasfree}
    return code is not None and not any(each.opcode in named for each in dis.get_instructions(code))


def _rows(achieved_goal: Any, desired_goal: Any, info: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the three arguments for each row; ``info`` may be a list of dicts or a dict of arrays."""
    for i in range(len(leaf_arrays(achieved_goal)[0])):
        goals = (map_tree(lambda rows: rows[i], goal) for goal in (achieved_goal, desired_goal))  # noqa: B023
        is_columns = isinstance(info, Mapping)
        yield *goals, {key: column[i] for key, column in info.items()} if is_columns else info[i]
