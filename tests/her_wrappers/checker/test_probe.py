"""Probe passes copies of the arguments by position, and records values, errors and changed arguments."""

from __future__ import annotations

import numpy as np

from her_wrappers.checker.probe import Probe

GOAL = np.ones(2)


def test_arguments_are_passed_by_position_as_copies():
    def reward(achieved, goal, info):
        achieved += 1
        info["seen"] = True
        return goal.sum()

    info = {}
    result = Probe(reward)(GOAL, GOAL, info)
    assert (result.number, result.mutated_argument, info) == (2.0, "achieved_goal", {})
    assert GOAL.tolist() == [1, 1]


def test_a_result_does_not_change_if_the_function_reuses_its_array():
    buffer = np.zeros(1)

    def reward(achieved, desired, info):
        buffer[:] += 1
        return buffer

    first, second = (Probe(reward)(GOAL, GOAL, {}) for _ in range(2))
    assert (first.number, second.number) == (1.0, 2.0)


def test_errors_and_values_that_are_not_numbers_are_distinguished():
    def fails(achieved, desired, info):
        raise KeyError("cost")

    result = Probe(fails)(GOAL, GOAL, {})
    assert (result.error_text, result.number, result.shape) == ("KeyError: 'cost'", None, None)
    nothing = Probe(lambda *goals: None)(GOAL, GOAL, {})
    assert (nothing.error_text, nothing.number, nothing.numbers) == ("", None, None)
    row = Probe(lambda *goals: np.array([3.0]))(GOAL, GOAL, {})
    assert (row.number, row.shape) == (3.0, (1,))
