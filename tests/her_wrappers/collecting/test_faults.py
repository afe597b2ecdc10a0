"""Faults of a collector's workers: killed processes, exceptions, Ctrl-C, and a learner that is killed."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from her_wrappers.collecting import Collector, CollectorError
from tests.support.collecting import (
    Fails,
    Killed,
    NeverSeeded,
    Noisy,
    Remembering,
    SeededWhenMade,
    Slow,
    Unseeded,
    Walk,
    assert_same_rounds,
    collect,
    collect_with_updates,
    gain_of,
    still,
)
from tests.support.interrupts import Countdown
from tests.support.killed import ROOT

SETTINGS = {"num_workers": 2, "num_envs": 3, "seed": 7, "info_keys": ["place"]}


def pids_of(collector):
    return {worker: process.pid for worker, process in collector._backend._processes.items()}


def test_workers_killed_while_they_play_change_no_episode(tmp_path):
    class Counted(Killed):
        path = str(tmp_path / "steps")

    with Collector(Counted, Noisy(), backend="process", **SETTINGS) as collector:
        assert_same_rounds(collect_with_updates(collector, 4), collect("local", 4))


def test_a_lost_worker_is_counted():
    with Collector(Slow, Noisy(), backend="process", **SETTINGS) as collector:
        rounds = collector.rounds()
        assert next(rounds).lost_workers == 0
        os.kill(pids_of(collector)[1], signal.SIGKILL)
        assert next(rounds).lost_workers == 1


def test_a_worker_that_always_dies_is_reported(monkeypatch, tmp_path):
    class Dies(Killed):
        path, at = str(tmp_path / "steps"), range(100)

    monkeypatch.setitem(sys.modules["her_wrappers.collecting.collector"].MAX_ATTEMPTS, "lost", 2)
    with Collector(Dies, still, backend="process") as collector, pytest.raises(CollectorError) as raised:
        next(collector.rounds())
    assert "worker 0 failed 2 times in round 0" in str(raised.value)
    assert "the process was killed, or its machine was lost" in str(raised.value)


def test_an_exception_that_does_not_come_three_times_changes_no_episode(tmp_path):
    class Raises(Fails):
        path = str(tmp_path / "steps")

    assert_same_rounds(collect("local", make_env=Raises, num_workers=1), collect("local", num_workers=1))


def test_an_exception_that_comes_three_times_names_worker_round_seed_and_cause(tmp_path):
    class Raises(Fails):
        path, at = str(tmp_path / "steps"), range(100)

    with Collector(Raises, still, seed=3) as collector, pytest.raises(CollectorError) as raised:
        next(collector.rounds())
    assert str(raised.value).startswith("worker 0 failed 3 times in round 0, whose environments are reset")
    assert re.search(
        r"ArithmeticError: the simulator diverged; raised in .*, in a call of step\(\)$", str(raised.value)
    )
    assert 'raise ArithmeticError("the simulator diverged")' in str(raised.value.__cause__)
    assert (tmp_path / "steps").read_text() == "xxx"


@pytest.mark.parametrize(
    ("make_env", "policy", "message"),
    [
        (Remembering, still, "'observations' .* pass fresh_envs=True"),
        (Unseeded, still, "'observations' .* in new environments.* pass deterministic=False"),
        (Walk, NeverSeeded(), "'observations' .* give the policy a method seed"),
    ],
)
def test_rounds_that_cannot_be_repeated_are_an_error(make_env, policy, message):
    with Collector(make_env, policy) as collector, pytest.raises(CollectorError, match=message):
        next(collector.rounds())


@pytest.mark.parametrize(
    ("make_env", "policy", "backend"),
    [
        (Remembering, still, "local"),
        (Unseeded, still, "local"),
        (Walk, NeverSeeded(), "local"),
        (Unseeded, still, "process"),
    ],
)
def test_simulators_that_cannot_repeat_an_episode_play_each_round_once(make_env, policy, backend):
    with Collector(make_env, policy, num_workers=2, deterministic=False, backend=backend) as collector:
        rounds = [each.episodes for each, _ in zip(collector.rounds(3), range(3), strict=False)]
    assert [len(episodes) for episodes in rounds] == [6, 6, 6]
    starts = {episode.observations[0].tobytes() for episodes in rounds for episode in episodes}
    assert len(starts) == 18


def test_a_killed_worker_of_a_simulator_that_cannot_repeat_loses_no_episode(tmp_path):
    class DiesOnce(Killed, Unseeded):
        path, at = str(tmp_path / "steps"), (5,)

    with Collector(DiesOnce, still, deterministic=False, backend="process") as collector:
        first = next(collector.rounds(4))
    assert (len(first.episodes), first.lost_workers) == (4, 1)


def test_environments_that_are_seeded_when_they_are_made_get_a_seed_for_each_round():
    settings = {"make_env": SeededWhenMade, "fresh_envs": True}
    rounds = collect("local", **settings)
    assert_same_rounds(collect("local", **settings), rounds)
    starts = {episode.observations[0].tobytes() for episodes in rounds for episode in episodes}
    assert len(starts) == 4 * 12


def test_environments_that_remember_are_made_for_each_round():
    settings = {"make_env": Remembering, "fresh_envs": True}
    assert_same_rounds(collect("process", **settings), collect("local", **settings))


@pytest.mark.parametrize("instruction", range(0, 3_600, 230))
def test_ctrl_c_at_any_instruction_of_the_collector_loses_no_round(instruction):
    whole = collect("local", 5)
    countdown = Countdown(
        instruction + 7 * instruction // 1_000, "collecting/collector", "collecting/backends"
    )
    collected = []
    with Collector(Walk, Noisy(), **SETTINGS) as collector, countdown.running():
        while len(collected) < 5:
            try:
                collected.append(next(collector.rounds(2)).episodes)
                collector.update(gain_of(collected[-1]))
            except KeyboardInterrupt:
                if collected:
                    collector.update(gain_of(collected[-1]))
    assert_same_rounds(collected, whole)


def is_running(pid):
    """Whether a process runs, and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - not a file
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pids, seconds=10.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(is_running, pids)):
        time.sleep(0.02)
    return not any(map(is_running, pids))


def test_closing_stops_busy_workers():
    with Collector(Slow, Noisy(), backend="process", **SETTINGS) as collector:
        next(collector.rounds(5))
        pids = list(pids_of(collector).values())
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))
    with pytest.raises(RuntimeError, match="the collector is closed"):
        next(collector.rounds(5))


PROGRAM = """
from her_wrappers.collecting import Collector
from tests.support.collecting import Noisy, Slow
with Collector(Slow, Noisy(), num_workers=2, backend="process") as collector:
    for each in collector.rounds(1 if collector._next == 0 else 50):
        print(*(process.pid for process in collector._backend._processes.values()), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_learner(number):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    ) as learner:
        pids = [int(pid) for pid in learner.stdout.readline().split()]
        assert len(pids) == 2
        learner.send_signal(number)
        learner.stdout.close()
        learner.wait()
    assert wait_until_gone(pids)


class Sticks(Walk):
    """The second episode of each process never returns from its step, until the folder has a file."""

    def __init__(self, file):
        super().__init__()
        self.file, self.resets = file, 0

    def reset(self, **options):
        self.resets += 1
        return super().reset(**options)

    def step(self, action):
        if self.resets > 2 and not self.file.exists():
            self.file.touch()
            time.sleep(1000)
        return super().step(action)


def test_a_worker_that_never_returns_is_replaced_after_the_timeout(tmp_path):
    options = {"num_envs": 1, "deterministic": False}
    make_env = lambda: Sticks(tmp_path / "stuck")  # noqa: E731
    rounds = collect("process", 3, make_env=make_env, timeout=4, **options)
    assert (tmp_path / "stuck").exists()
    assert_same_rounds(rounds, collect("local", 3, **options))


def test_a_worker_that_sticks_again_and_again_is_named_with_its_seed(tmp_path):
    class Stuck(Walk):
        def step(self, action):
            time.sleep(1000)

    settings = {**SETTINGS, "num_workers": 1, "backend": "process"}
    with Collector(Stuck, still, timeout=1.5, **settings) as collector:
        message = r"worker 0 failed 3 times in round 0, .* seed=\d+: .* within timeout=1.5 seconds"
        with pytest.raises(CollectorError, match=message):
            next(collector.rounds())


def test_without_a_timeout_a_warning_names_the_worker(monkeypatch):
    monkeypatch.setattr("her_wrappers.collecting.collector.PATIENCE", 0.1)
    with pytest.warns(UserWarning, match=r"worker [01] has not finished round 0 .*pass timeout="):
        collect("process", 1, make_env=Slow)
    with pytest.raises(ValueError, match="timeout must be a number in"):
        Collector(Walk, still, timeout=0)
