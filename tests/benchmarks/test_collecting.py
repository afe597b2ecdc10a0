"""The benchmark of the collector runs, and its requirements are judged by the measured values."""

from functools import partial

import pytest

from benchmarks import collecting


def noop(seconds):
    """Do nothing, in place of `time.sleep`."""


def test_steps_after_the_warm_up_are_counted():
    learned = []
    make_env = partial(collecting.Timed, 3, noop, 0.0)
    speed, seconds = collecting.steps_per_second(make_env, "local", 2, 4, learned.append)
    assert learned == [6] * (collecting.WARM_UP + 4)
    assert speed * seconds == pytest.approx(6)
