"""Statistics of results: curves, times and verdicts."""

from __future__ import annotations

import pytest

from benchmarks.studies import bitflip, reach, strategies
from benchmarks.studies.results_file import RunResults
from benchmarks.studies.runs import WITH_HER, Run
from benchmarks.studies.study import wall_clock_seconds
from her_agents.config import Config
from tests.support.studies import TINY, result_of


def test_curve_of_a_shorter_run_continues_with_its_last_value():
    run = Run({"n": 1}, Config("e", "dqn", steps=60, steps_per_epoch=10, learning_starts=0))
    two = RunResults([result_of(run, [0.5, 1.0]), result_of(run, [0.0, 0.2, 0.4, 0.6])])
    steps, success = two.curve()
    assert steps.tolist() == [10, 20, 30, 40]
    assert success.T.tolist() == [[0.5, 1, 1, 1], [0, 0.2, 0.4, 0.6]]
    assert two.curve(6)[0].tolist() == [10, 20, 30, 40, 50, 60]
    assert two.mean_over_training() == pytest.approx([5.5 / 6, (0.2 + 0.4 + 3 * 0.6) / 6])


def test_wall_clock_time_excludes_pauses_and_counts_parallel_runs_once():
    run = Run({"n": 1}, Config("e", "dqn"))
    spans = [(10, 4), (12, 4), (11, 1), (100, 5)]  # from 6 to 12, and from 95 to 100
    all_results = RunResults([result_of(run, [1.0], ended=ended, seconds=span) for ended, span in spans])
    assert wall_clock_seconds(all_results) == 11


def judged(module, success):
    """Return the verdicts of the complete study if all trainings end with the given success rate."""
    study = module.make_study(1, quick=False)
    results = RunResults([result_of(run, [0.5], final=success(run)) for run in study.runs])
    return [requirement.verdict for requirement in study.judge(results)]


def as_promised(run):
    return float(WITH_HER in run.labels.values() or run.labels.get("strategy") == "future")


@pytest.mark.parametrize("module", [bitflip, strategies, reach])
def test_missed_requirements_are_marked(module, monkeypatch):
    monkeypatch.setattr(reach, "TASKS", dict.fromkeys(("PointReach", "PointMaze", "PointPush"), TINY))
    assert "MISSED" not in judged(module, lambda run: as_promised(run) or run.labels.get("n") == 5)
    for wrong in (lambda run: 0.5, lambda run: 1 - as_promised(run)):
        assert "MISSED" in judged(module, wrong)


def test_requirements_without_runs_are_not_judged():
    study = bitflip.make_study(1, quick=False)
    few = RunResults([
        result_of(run, [1.0]) for run in study.runs if run.labels == {"n": 50, "goals": WITH_HER}
    ])
    verdicts = [requirement.verdict for requirement in study.judge(few)]
    assert verdicts == ["not measured", "met", "not measured", "not measured", "met"]
