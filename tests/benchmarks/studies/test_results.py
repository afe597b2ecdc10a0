"""Statistics of results: means, times and requirements."""

from dataclasses import replace

import pytest

from benchmarks.studies import strategies
from benchmarks.studies.results_file import RunResults
from benchmarks.studies.runs import Run
from benchmarks.studies.study import make_page, wall_clock_seconds
from her_agents.training.config import Config
from tests.support.studies import result_of


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


@pytest.mark.parametrize(("rate", "is_met"), [(0.9, True), (0.89, False)])
def test_the_strategy_future_is_judged_by_its_success_rate(rate, is_met):
    study = strategies.make_study(1, quick=True)
    results = RunResults([result_of(run, [0.5], final=rate) for run in study.runs])
    assert [requirement.is_met for requirement in study.judge(results)] == [is_met]
    sentence = "median success rate of `future` with k = 4 is 0.89; at least 0.9 is required"
    missed = [] if is_met else [sentence]
    assert list(map(str, make_page(replace(study, quick=False), results, {}).missed)) == missed
    assert make_page(study, results, {}).missed == [], "a short version is not judged"
