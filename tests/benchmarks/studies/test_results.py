"""Statistics of results: means, times and requirements."""

from __future__ import annotations

import pytest

from benchmarks.studies import bitflip, reach, strategies
from benchmarks.studies.results_file import RunResults
from benchmarks.studies.runs import WITH_HER, Run
from benchmarks.studies.study import wall_clock_seconds
from her_agents.config import Config
from tests.support.studies import TINY, result_of


def test_a_solved_run_counts_with_its_last_success_rate_until_the_end():
    run = Run({"n": 1}, Config("e", "dqn", steps=40, steps_per_epoch=10, learning_starts=0))
    two = RunResults([result_of(run, [0.5, 1.0, 1.0]), result_of(run, [0.0, 0.2, 0.4, 0.6])])
    assert [log.steps.tolist() for log in two.logs()] == [[10, 20, 30], [10, 20, 30, 40]]
    assert two.mean_over_run() == pytest.approx([3.5 / 4, 1.2 / 4])


def test_wall_clock_time_excludes_pauses_and_counts_parallel_runs_once():
    run = Run({"n": 1}, Config("e", "dqn"))
    spans = [(10, 4), (12, 4), (11, 1), (100, 5)]  # from 6 to 12, and from 95 to 100
    all_results = RunResults([result_of(run, [1.0], ended=ended, seconds=span) for ended, span in spans])
    assert wall_clock_seconds(all_results) == 11


def judged(module, success):
    """Return which requirements are met if all runs end with the given success rate."""
    study = module.make_study(1, quick=False)
    results = RunResults([result_of(run, [0.5], final=success(run)) for run in study.runs])
    return [requirement.is_met for requirement in study.judge(results)]


def as_expected(run):
    return float(WITH_HER in run.labels.values() or run.labels.get("strategy") == "future")


@pytest.mark.parametrize("module", [bitflip, strategies, reach])
def test_requirements_are_judged_by_the_success_rates(module, monkeypatch):
    monkeypatch.setattr(reach, "TASKS", dict.fromkeys(("PointReach", "PointMaze", "PointPush"), TINY))
    assert all(judged(module, lambda run: as_expected(run) or run.labels.get("n") == 5))
    for wrong in (lambda run: 0.5, lambda run: 1 - as_expected(run)):
        assert not all(judged(module, wrong))


def test_requirements_without_runs_are_not_judged():
    study = bitflip.make_study(1, quick=False)
    few = RunResults([
        result_of(run, [1.0]) for run in study.runs if run.labels == {"n": 50, "goals": WITH_HER}
    ])
    assert [requirement.is_met for requirement in study.judge(few)] == [None, True, None, None, True]
