"""Recorders: after an error between any two instructions, no sink gets a wrong step, or a step twice."""

import pytest

from tests.support.interrupted_recorder import RECORDERS, instructions, interrupt_recorder


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that was just opened
@pytest.mark.parametrize("number", [4, pytest.param(300, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("recorder", RECORDERS)
def test_an_error_at_any_instruction_leaves_only_right_steps(recorder, error, number, tmp_path):
    number = min(number, instructions(recorder))
    for i in range(number):
        interrupt_recorder(recorder, error, (i + 0.5) / number, tmp_path)
