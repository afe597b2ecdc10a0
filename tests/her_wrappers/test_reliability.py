"""A three-hundredth of the random trials of `benchmarks/reliability.py`: no trial gives wrong data."""

import numpy as np
import pytest

from tests.support.trials import KINDS, exceed_limits, explain_rows, interrupt_buffer, interrupt_recording

# If an interrupt occurs just after a file was opened, only its garbage collection closes the file.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ELSEWHERE = interrupt_buffer, interrupt_recording, explain_rows
"""Trials of which other default tests run more; one of each runs here."""


# test_memory.py has memory limits for each method.
TRIED = [kind for kind in KINDS if kind.run is not exceed_limits]


@pytest.mark.parametrize("kind", TRIED, ids=lambda kind: kind.what)
def test_no_trial_finds_wrong_data(kind, tmp_path):
    events, seed = 0, 0
    while events < (1 if kind.run in ELSEWHERE else kind.count / 300):
        folder = tmp_path / str(seed)
        folder.mkdir()
        events += kind.run(np.random.default_rng(seed), folder)
        seed += 1
