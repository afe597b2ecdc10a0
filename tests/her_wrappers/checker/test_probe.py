"""Probe: calls go by position, with copies, and nothing that happens in them is lost."""

from __future__ import annotations

import numpy as np

from her_wrappers.checker.probe import Probe

GOAL = np.ones(2)


def test_arguments_are_given_by_position_and_as_copies():
    def reward(achieved, goal, info):
        achieved += 1
        info["seen"] = True
        return goal.sum()

    info = {}
    answer = Probe(reward)(GOAL, GOAL, info)
    assert (answer.number, answer.mutated, info) == (2.0, "achieved_goal", {})
    assert GOAL.tolist() == [1, 1]


def test_an_answer_is_kept_though_the_function_reuses_its_array():
    buffer = np.zeros(1)

    def reward(achieved, desired, info):
        buffer[:] += 1
        return buffer

    first, second = (Probe(reward)(GOAL, GOAL, {}) for _ in range(2))
    assert (first.number, second.number) == (1.0, 2.0)


def test_errors_and_answers_that_are_no_numbers_are_told_apart():
    def fails(achieved, desired, info):
        raise KeyError("cost")

    answer = Probe(fails)(GOAL, GOAL, {})
    assert (answer.raised, answer.number, answer.shape) == ("KeyError: 'cost'", None, None)
    nothing = Probe(lambda *goals: None)(GOAL, GOAL, {})
    assert (nothing.raised, nothing.number, nothing.numbers) == ("", None, None)
    row = Probe(lambda *goals: np.array([3.0]))(GOAL, GOAL, {})
    assert (row.number, row.shape) == (3.0, (1,))
