"""After an error at any instruction, a call had no effect, its full effect, or only evicted episodes."""

from __future__ import annotations

import pytest

from tests.support.interrupted_buffer import OPERATIONS, SMALL, interrupt, save_from_handler, scenario

# If an interrupt occurs just after a file was opened, only its garbage collection closes the file.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.arrays_only("the random trials of test_reliability.py have tensors too")
@pytest.mark.parametrize("stride", [499, pytest.param(101, marks=pytest.mark.slow)])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_error_at_any_instruction_gives_no_wrong_row(operation, error, stride, tmp_path):
    instructions = scenario(operation, SMALL, None).instructions
    for number in range(0, instructions, stride):
        interrupt(operation, SMALL, None, error, number / instructions, tmp_path)


@pytest.mark.arrays_only("the random trials of test_reliability.py have tensors too")
@pytest.mark.parametrize("stride", [499, pytest.param(101, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_signal_handler_saves_whole_episodes_at_any_instruction(operation, stride, tmp_path):
    instructions = scenario(operation, SMALL, None).instructions
    for number in range(0, instructions, stride):
        save_from_handler(operation, SMALL, None, number / instructions, tmp_path)
