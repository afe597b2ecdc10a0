"""Faults of a collector's workers: killed processes, exceptions, Ctrl-C, and a learner that is killed."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from her_wrappers.collecting import Collector, CollectorError
from her_wrappers.collecting.backends import LocalBackend
from her_wrappers.collecting.collector import MAX_ATTEMPTS
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


def test_workers_killed_while_they_play_change_no_episode(tmp_path):
    class Counted(Killed):
        path, at = str(tmp_path / "steps"), (3, 150)

    with Collector(Counted, Noisy(), backend="process", **SETTINGS) as collector:
        assert_same_rounds(collect_with_updates(collector, 3), collect("local", 3))


def test_a_worker_that_always_dies_is_reported(monkeypatch, tmp_path):
    class Dies(Killed):
        path, at = str(tmp_path / "steps"), range(100)

    monkeypatch.setitem(MAX_ATTEMPTS, "lost", 1)
    message = "worker 0 failed 1 times in round 0.* the process was killed, or its machine was lost"
    with Collector(Dies, still, backend="process") as collector, pytest.raises(CollectorError, match=message):
        next(collector.rounds())


def test_an_exception_that_does_not_come_three_times_changes_no_episode(tmp_path):
    class Raises(Fails):
        path = str(tmp_path / "steps")

    assert_same_rounds(collect("local", make_env=Raises, num_workers=1), collect("local", num_workers=1))


def test_an_exception_that_comes_three_times_names_worker_round_seed_and_cause(tmp_path):
    class Raises(Fails):
        path, at = str(tmp_path / "steps"), range(100)

    message = (
        r"worker 0 failed 3 times in round 0, whose environments are reset with seed=\d+: "
        r"ArithmeticError: the simulator diverged; raised in .*, in a call of step\(\)$"
    )
    with Collector(Raises, still) as collector, pytest.raises(CollectorError, match=message) as raised:
        next(collector.rounds())
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


@pytest.mark.parametrize(("make_env", "policy"), [(Unseeded, still), (Walk, NeverSeeded())])
def test_simulators_that_cannot_repeat_an_episode_play_each_round_once(make_env, policy):
    with Collector(make_env, policy, num_workers=2, deterministic=False) as collector:
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


@pytest.mark.parametrize("make_env", [SeededWhenMade, Remembering])
def test_new_environments_in_each_round_are_seeded_when_they_are_made_and_forget(make_env):
    settings = {"make_env": make_env, "fresh_envs": True}
    rounds = collect("local", **settings)
    assert_same_rounds(collect("local", **settings), rounds)
    starts = {episode.observations[0].tobytes() for episodes in rounds for episode in episodes}
    assert len(starts) == 4 * 12


@pytest.mark.parametrize("step", [900, pytest.param(230, marks=pytest.mark.campaign)])
def test_ctrl_c_at_any_instruction_of_the_collector_loses_no_round(step):
    whole = collect("local", 5)
    for instruction in range(step // 2, 3_600, step):
        countdown = Countdown(instruction, "collecting/collector", "collecting/backends")
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
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_closing_stops_busy_workers():
    with Collector(Slow, Noisy(), backend="process") as collector:
        next(collector.rounds(5))
        pid = collector._backend._processes[0].pid
        assert is_running(pid)
    assert not is_running(pid)
    with pytest.raises(RuntimeError, match="the collector is closed"):
        next(collector.rounds(5))


PROGRAM = """
from her_wrappers.collecting import Collector
from tests.support.collecting import Noisy, Slow
with Collector(Slow, Noisy(), backend="process") as collector:
    for each in collector.rounds(1 if collector._next == 0 else 50):
        print(collector._backend._processes[0].pid, flush=True)
"""


def test_workers_end_with_a_killed_learner():
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE) as learner:
        pid = int(learner.stdout.readline())
        learner.kill()
    end = time.monotonic() + 10
    while time.monotonic() < end and is_running(pid):
        time.sleep(0.02)
    assert not is_running(pid)


@pytest.fixture
def hangs(monkeypatch):
    """Make a worker hang as often as the value of the list says; a call of `receive` finds no result then."""
    times = [1]

    class Hanging(LocalBackend):
        def receive(self, timeout):
            times[0] -= 1
            return None if times[0] >= 0 else super().receive(timeout)

    monkeypatch.setattr("her_wrappers.collecting.collector.LocalBackend", Hanging)
    return times


def test_a_worker_that_never_returns_is_replaced_after_the_timeout(hangs):
    rounds = collect("local", 3, timeout=1e-9)
    assert hangs[0] < 0
    assert_same_rounds(rounds, collect("local", 3))


def test_a_worker_that_hangs_again_and_again_is_named_with_its_seed(hangs):
    hangs[0] = 3
    with pytest.raises(
        CollectorError, match=r"worker 0 failed 3 times in round 0, .* seed=\d+: .* timeout=1e"
    ):
        collect("local", 1, timeout=1e-9, num_workers=1)
    with pytest.raises(ValueError, match="timeout must be a number in"):
        Collector(Walk, still, timeout=0)


def test_without_a_timeout_a_warning_names_the_worker(hangs, monkeypatch):
    monkeypatch.setattr("her_wrappers.collecting.collector.PATIENCE", 1e-9)
    with pytest.warns(UserWarning, match=r"worker [01] has not finished round 0 .*pass timeout="):
        collect("local", 1)
