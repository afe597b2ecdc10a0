"""A hundredth of the random trials of `benchmarks/reliability.py`: no trial gives wrong data."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.support.trials import KINDS, exceed_limits

# If an interrupt occurs just after a file was opened, only its garbage collection closes the file.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
def test_no_trial_finds_wrong_data(kind, tmp_path):
    if kind.run is exceed_limits and sys.platform != "linux":
        pytest.skip("the limit needs RLIMIT_AS and /proc of Linux")
    events, wanted = 0, kind.count / 100
    for seed in range(2 * int(wanted)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        events += kind.run(np.random.default_rng(seed), folder)
        if events >= wanted:
            return
    pytest.fail(f"only {events} of {wanted:.0f} events")
