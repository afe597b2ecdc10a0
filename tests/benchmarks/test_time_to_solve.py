"""The benchmark of the time to solve BitFlipping: when a task is solved, and how times are measured."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from benchmarks.sb3_training import OURS, SB3
from benchmarks.solving import (
    CONFIRMATION_EPISODES,
    MAX_STEPS,
    Result,
    Settings,
    Trial,
    success_rate,
    train_ours,
    train_sb3,
)
from benchmarks.time_to_solve import BEST, EQUAL, SETTINGS, outcome_grid, requirements, time_grid


def flip_first_wrong_bit(observations):
    return np.argmax(observations["observation"] != observations["desired_goal"], axis=1)


def flip_bit_0(observations):
    return np.zeros(len(observations["observation"]), int)


@pytest.mark.parametrize("bits", [1, 3, 9])
def test_success_rate_is_that_of_the_first_episodes(bits):
    assert success_rate(flip_first_wrong_bit, bits, 50, seed=0) == 1
    if bits > 1:
        assert success_rate(flip_bit_0, bits, 200, seed=0) <= 2 * 0.5 ** (bits - 1)


def test_trial_ends_at_the_first_confirmed_evaluation():
    trial = Trial(bits=6, every=100, budget=1e9)
    assert not trial.is_over(99, flip_first_wrong_bit), "no evaluation is due"
    assert not trial.is_over(100, flip_bit_0)
    assert not trial.is_over(199, flip_first_wrong_bit)
    assert trial.is_over(202, flip_first_wrong_bit)
    result = trial.result()
    assert (result.steps, result.solved, result.success) == (202, True, 1)


def test_unconfirmed_evaluation_does_not_end_the_trial():
    def act(observations):
        hard = len(observations["observation"]) == CONFIRMATION_EPISODES
        return (flip_bit_0 if hard else flip_first_wrong_bit)(observations)

    trial = Trial(bits=6, every=100, budget=1e9)
    assert not trial.is_over(100, act)
    assert not trial.result().solved


@pytest.mark.parametrize("end", [{"budget": 0.0}, {"budget": 1e9, "steps": MAX_STEPS}])
def test_trial_without_time_or_steps_left_ends_unsolved(end):
    trial = Trial(bits=6, every=100, budget=end["budget"])
    assert trial.is_over(end.get("steps", 100), flip_bit_0)
    assert not trial.result().solved


@pytest.mark.parametrize("train", [train_ours, train_sb3])
def test_both_libraries_solve_two_bits_and_measure_the_time(train):
    settings = Settings(
        num_envs=4, hidden=(32,), batch_size=32, learning_rate=1e-2, updates=2, learning_starts=100
    )
    result = train(settings, 2, lambda: Trial(bits=2, every=100, budget=30), seed=0)
    assert result.solved
    assert result.success >= 0.95
    assert result.steps % 100 == 0
    due = 2 * (result.steps - settings.learning_starts) // 4
    assert result.updates in (due - 2, due), "SB3 is evaluated before the updates of a step"
    assert min(result.collecting, result.sampling, result.updating) > 0
    assert result.collecting + result.sampling + result.updating == pytest.approx(result.seconds)


def test_equal_settings_are_equal():
    ours, theirs = (SETTINGS[EQUAL][name] for name in (OURS, SB3))
    for name in ("num_envs", "hidden", "batch_size", "learning_rate", "gamma", "n_sampled_goal", "updates"):
        assert getattr(ours, name) == getattr(theirs, name)


@pytest.mark.parametrize(("factor", "verdict"), [(4.9, "MISSED"), (5, "met")])
def test_requirement_is_judged_by_the_median_processor_time(factor, verdict):
    def runs(seconds):
        return [Result(1000, 10, True, 1.0, each, each, 0.1, 0.2) for each in (seconds, 0.5, 99)]

    results = {
        (kind, name): runs(time) for kind in (EQUAL, BEST) for name, time in ((OURS, 1), (SB3, factor))
    }
    assert [each.verdict for each in requirements(results)] == [
        *["no promise"] * 2,
        verdict,
        "no promise",
    ]
    assert len(outcome_grid(results).rows) == len(time_grid(results).rows) == 4
