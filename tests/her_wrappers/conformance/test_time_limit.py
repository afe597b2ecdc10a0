"""The time limit of a scenario stops loops and sleeps; time while the process was stopped is not counted."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from her_wrappers.conformance.results import StoppedError, call_within

STOPPED = """
import sys
from her_wrappers.conformance.results import call_within

def work():
    print("started", flush=True)
    return sys.stdin.readline()

print(call_within(0.4, work))
"""


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


def test_a_process_that_was_stopped_for_longer_than_the_limit_continues():
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.7)
    process.stdin.write("completed\n")
    process.stdin.flush()
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=60)[0] == "completed\n\n"
    assert process.returncode == 0
