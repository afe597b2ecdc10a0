"""The time limit of a scenario stops loops and sleeps."""

import threading

import pytest

from her_wrappers.conformance.results import StoppedError, call_within


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_loop_and_a_sleep_exceed_the_limit(seconds):
    end, before = threading.Event(), set(threading.enumerate())

    def work():
        while True:
            if seconds:  # a loop that is stopped inside of wait can keep the lock of the event, for ever
                end.wait(seconds)

    with pytest.raises(StoppedError):
        call_within(0.3, work)
    left = set(threading.enumerate()) - before
    assert all(thread.daemon for thread in left), "the process can end"
    end.set()  # in Python 3.11, a thread that cannot be interrupted yet delays traced code, as of later tests
    for thread in left:
        thread.join()
