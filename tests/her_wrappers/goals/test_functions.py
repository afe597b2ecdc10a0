"""batched_terminated returns one bool for each row, for functions of batches and of single goals."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers.goals.functions import BatchedTermination, batched_terminated

GOALS = spaces.Box(-1, 1, (3,))


def close(achieved, desired):
    return np.linalg.norm(achieved - desired, axis=-1) < 0.5


def raises_on_batches(achieved, desired, info):
    return "yes" if close(achieved, desired) else ""  # the truth value of a batch is ambiguous


def not_implemented(achieved, desired, info):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "row_by_row"),
    [
        (lambda achieved, desired, info: close(achieved, desired), False),
        # gymnasium-robotics' PointMaze: one bool for any batch, from all rows together
        (lambda achieved, desired, info: bool(np.linalg.norm(achieved - desired) < 0.5), True),
        (raises_on_batches, True),
    ],
    ids=["rowwise", "scalar", "raises"],
)
def test_terminations_are_correct_for_every_row(function, row_by_row):
    batched = batched_terminated(function, GOALS)
    achieved, desired = np.random.default_rng(0).uniform(-1, 1, (2, 100, 3))
    desired[::2] = achieved[::2]
    with pytest.warns(UserWarning, match="100 times for this batch") if row_by_row else nullcontext():
        result = batched(achieved, desired, [{}] * 100)
    assert isinstance(batched, BatchedTermination) == row_by_row
    assert batched_terminated(batched, GOALS) is batched
    assert result.dtype == bool
    np.testing.assert_array_equal(result, close(achieved, desired))


def test_a_function_that_is_not_implemented_is_ignored_and_one_with_other_arguments_raises():
    assert batched_terminated(not_implemented, GOALS) is None
    assert batched_terminated(None, GOALS) is None
    with pytest.raises(TypeError, match=r"compute_terminated must be a function of .*takes 2"):
        batched_terminated(lambda achieved, desired: True, GOALS)


@pytest.mark.parametrize(
    "function",
    [
        lambda achieved, desired, info: bool(info["force"] > 2),
        lambda achieved, desired, info: np.array([row["force"] > 2 for row in info]),
    ],
    ids=["scalar", "rowwise"],
)
def test_a_function_that_needs_infos_works_with_real_infos(function):
    batched = batched_terminated(function, GOALS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in (4, 1, 3):
            infos = [{"force": i} for i in range(count)]
            result = batched(np.zeros((count, 3)), np.zeros((count, 3)), infos)
            assert result.tolist() == [i > 2 for i in range(count)]


class FailsOnce:
    """A function of batches that needs infos, and raises an error at the first call with infos."""

    has_failed, calls = False, 0

    def __call__(self, achieved, desired, info):
        if any(info) and not self.has_failed:
            self.has_failed = True
            raise MemoryError("temporary")
        self.calls += 1
        return close(achieved, desired) & np.array([row["ok"] for row in info])


def test_a_temporary_error_does_not_lead_to_calls_for_each_row():
    function, goals, infos = FailsOnce(), np.zeros((4, 3)), [{"ok": i % 2 == 0} for i in range(4)]
    batched = batched_terminated(function, GOALS)
    with pytest.raises(MemoryError, match="temporary"):
        batched(goals, goals, infos)
    function.calls = 0
    with warnings.catch_warnings(action="error"):
        assert batched(goals, goals, infos).tolist() == [True, False, True, False]
    assert function.calls == 1


class Continuing:
    """The function of gymnasium-robotics' Fetch tasks, as a method."""

    LIMIT = 2.0

    def never(self, achieved_goal, desired_goal, info):
        """Never."""
        return False

    def by_attribute(self, achieved_goal, desired_goal, info):
        return self.LIMIT < 1


@pytest.mark.parametrize(
    ("function", "is_silent"),
    [
        (Continuing().never, True),
        (lambda achieved, desired, info: True, True),
        (Continuing().by_attribute, False),
    ],
    ids=["method", "true", "attribute"],
)
def test_a_function_that_reads_nothing_is_called_once_without_a_warning(function, is_silent):
    batched = batched_terminated(function, GOALS)
    with nullcontext() if is_silent else pytest.warns(UserWarning, match="once for each row"):
        result = batched(np.zeros((5, 3)), np.ones((5, 3)), [{}] * 5)
    assert result.tolist() == [function(None, 0, None)] * 5
