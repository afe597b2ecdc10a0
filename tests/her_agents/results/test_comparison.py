"""Comparison of groups of runs: statistics with exact oracles, groups, tables and figures."""

import math

import numpy as np
import pytest

from her_agents import RunLog, compare
from her_agents.results.comparison import estimate, improvement_probability, interquartile_mean, time_until


def run_log(rates, *, group="a", every=10, name="run", **options):
    """Return a run with an evaluation after each ``every`` steps, which take one minute."""
    steps = every * np.arange(1.0, len(rates) + 1)
    return RunLog(name, steps, np.array(rates, float), 6 * steps, group, options)


def ends_at(step, *, reached):
    """Return a run with its last evaluation at a step, where it reaches 0.9 or not."""
    rates = np.array([0.0, 0.9 if reached else 0.5])
    return RunLog("run", np.array([1.0, step]), rates, 60 * np.array([1.0, step]))


def test_the_interquartile_mean_leaves_out_the_lowest_and_the_highest_quarter():
    assert interquartile_mean(np.array([100, 1, 2, 3, 4, 5, 6, -100])) == 3.5
    assert interquartile_mean(np.array([0, 1, 0.5])) == 0.5  # a quarter of three runs, rounded down, is 0
    assert interquartile_mean(np.array([9, 0.0]), np.array([1, 2.0])) == 1.5  # of all tasks together


def test_the_probability_of_improvement_counts_pairs_and_half_of_the_ties():
    x, y = np.array([0.5, 1.0]), np.array([0.5, 0.0, 1.0])
    # 0.5: tie, above, below; 1.0: above, above, tie
    assert improvement_probability(x, y) == (0.5 + 1 + 0 + 1 + 1 + 0.5) / 6
    assert improvement_probability(x, y, np.array([1]), np.array([0])) == (4 / 6 + 1) / 2  # mean of two tasks


def test_censored_runs_count_until_their_end():
    # Weeks in remission of the treated patients of Freireich et al. 1963, the example of many textbooks:
    # the Kaplan-Meier median is 23, though only 9 of 21 relapsed.
    relapsed = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    censored = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    logs = [ends_at(week, reached=True) for week in relapsed]
    logs += [ends_at(week, reached=False) for week in censored]
    reached, (median, low, high) = time_until(logs, 0.9)
    assert (reached, median, low, high) == (9, 23, 13, math.inf)
    assert time_until(logs, 0.9, minutes=True)[1].value == 23


def test_the_median_time_is_infinite_unless_half_of_the_runs_reach_the_rate():
    # Hand-computed: shares without success after 10, 20, 30 are 4/5, 4/5 * 3/4 and (censored at 25) 3/10.
    logs = [ends_at(10, reached=True), ends_at(20, reached=True), ends_at(25, reached=False)]
    logs += [ends_at(30, reached=True), ends_at(40, reached=False)]
    assert time_until(logs, 0.9)[1].value == 30
    assert time_until(logs[:3], 0.9)[1] == (20, 10, math.inf)  # three runs: their range
    assert time_until([logs[2], logs[4], logs[0]], 0.9)[1] == (math.inf, 10, math.inf)


def test_the_bootstrap_resamples_each_task_by_itself():
    # Without strata, the mean of a resample would vary with the number of runs of each task.
    value, low, high = estimate(interquartile_mean, [np.zeros(10), np.ones(10)], np.random.default_rng(0))
    assert (value, low, high) == (0.5, 0.5, 0.5)


def test_fewer_than_five_runs_have_their_range_and_no_interval():
    row = compare(*(run_log([rate]) for rate in (0.2, 0.4, 0.9, 0.5))).rows[0]
    assert row.success == (0.45, 0.2, 0.9)


def test_runs_are_compared_at_the_end_of_the_shortest_unless_they_are_solved():
    long, short, solved = run_log([0, 0.2, 0.4]), run_log([0, 0.6]), run_log([1, 1])
    assert [row.at for row in compare(long, short).rows] == [20]
    row = compare(long, solved).rows[0]
    assert (row.at, row.success.value) == (30, 0.7)  # a solved run keeps its success rate
    assert compare(run_log([1, 1]), run_log([0, 1, 1])).rows[0].at == 30
    with pytest.raises(ValueError, match=r"no success rate after 25 steps: .* after 10 steps, .* after 20;"):
        compare(long, short, at=25)
    assert compare(long, short, at=15).rows[0].success.value == 0  # the last evaluation before


def test_evaluations_of_almost_equal_steps_are_compared():
    # Episodes end after different numbers of steps, and so do the epochs of two runs.
    rates, steps = np.array([0, 0.5, 0.9]), 1000 * np.arange(1.0, 4)
    logs = [RunLog("run", steps + i, rates, np.zeros(3)) for i in range(2)]
    assert compare(*logs).rows[0].success == (0.9, 0.9, 0.9)
    *_, mean = compare(*logs).draw().axes[0].lines
    assert (list(mean.get_xdata()), list(mean.get_ydata())) == ([1001, 2001, 3000], [0, 0.5, 0.9])


def test_groups_are_those_of_an_option():
    logs = [run_log([rate], **{"agent.temperature": rate}) for rate in (0.1, 0.2, 0.1)]
    rows = compare(*logs, by=["agent.temperature"]).rows
    assert [(row.group, row.runs) for row in rows] == [("temperature 0.1", 2), ("temperature 0.2", 1)]
    with pytest.raises(ValueError, match=r"got 'tau'; the options of run are: 'agent\.temperature'"):
        compare(*logs, by=["tau"])


def test_several_tasks_have_rows_of_their_own_and_a_common_one():
    logs = [
        run_log([rate + 0.1 * (group == "b")], group=group, env=env)
        for env, rate in (("x", 0.1), ("y", 0.8))
        for group in "ab"
        for _ in range(5)
    ]
    result = compare(*logs)
    found = [(row.task, row.group, round(row.success.value, 6)) for row in result.rows]
    tasks = [("x", "a", 0.1), ("x", "b", 0.2), ("y", "a", 0.8), ("y", "b", 0.9)]
    assert found == [*tasks, ("all", "a", 0.45), ("all", "b", 0.55)]
    assert result.improvement == {("a", "b"): (0, 0, 0)}
    assert [axes.get_title() for axes in result.draw().axes] == ["x", "y"]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".md"])
def test_equal_comparisons_write_equal_files(suffix, tmp_path):
    logs = [run_log([0.1, 0.5], group=group, name=f"r_{i}") for group in ("a_b", "c") for i in range(5)]
    if suffix == ".pdf":  # slow with bands
        logs = logs[::5]
    paths = [tmp_path / f"{i}{suffix}" for i in range(2)]
    for path in paths:
        compare(*logs).write(path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".md": b"| group"}
    assert first.startswith(start[suffix])
    if suffix == ".md":
        assert b"| a_b | 5 | 20 | 0.50 | 0 of 5 | not reached | not reached |" in first


def test_bad_input_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"threshold must be a number in \(0, 1\]"):
        compare(run_log([1]), threshold=1.5)
    with pytest.raises(ValueError, match=r"compare\(\) needs at least one run, got none"):
        compare()
    with pytest.raises(ValueError, match=r"must end with .*\.md, got"):
        compare(run_log([1])).write(tmp_path / "figure.jpeg")
