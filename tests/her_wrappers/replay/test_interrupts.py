"""After an error at any instruction, a call had no effect, its full effect, or only evicted episodes."""

import numpy as np
import pytest

from tests.support.interrupted_buffer import OPERATIONS, interrupt

# If an interrupt occurs just after a file was opened, only its garbage collection closes the file.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_error_at_any_instruction_gives_no_wrong_row(operation, error, device, times, tmp_path):
    rng = np.random.default_rng(times)
    for number in range(times):
        interrupt(operation, device, error, (number + rng.random()) / times, tmp_path)
