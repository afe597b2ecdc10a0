"""The benchmark of whole trainings: who is solved when, by whose clock, and what is claimed of it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from benchmarks.sb3_training import OURS, SB3
from benchmarks.solving import (
    FRESH_EPISODES,
    MOST_STEPS,
    Result,
    Settings,
    Trial,
    success_rate,
    train_ours,
    train_sb3,
)
from benchmarks.time_to_solve import BEST, EQUAL, SETTINGS, claims, outcome_grid, part_grid


def flip_what_differs(observations):
    return np.argmax(observations["observation"] != observations["desired_goal"], axis=1)


def flip_the_first(observations):
    return np.zeros(len(observations["observation"]), int)


@pytest.mark.parametrize("bits", [1, 3, 9])
def test_the_success_rate_is_of_first_episodes(bits):
    assert success_rate(flip_what_differs, bits, 50, seed=0) == 1
    if bits > 1:
        assert success_rate(flip_the_first, bits, 200, seed=0) <= 2 * 0.5 ** (bits - 1)


def test_a_trial_ends_at_the_first_look_that_fresh_episodes_confirm():
    trial = Trial(bits=6, every=100, budget=1e9)
    assert not trial.over(99, flip_what_differs), "it is not time to look"
    assert not trial.over(100, flip_the_first)
    assert not trial.over(199, flip_what_differs)
    assert trial.over(202, flip_what_differs)
    result = trial.result()
    assert (result.steps, result.solved, result.success) == (202, True, 1)


def test_what_fresh_episodes_do_not_confirm_is_not_solved():
    def act(observations):
        hard = len(observations["observation"]) == FRESH_EPISODES
        return (flip_the_first if hard else flip_what_differs)(observations)

    trial = Trial(bits=6, every=100, budget=1e9)
    assert not trial.over(100, act)
    assert not trial.result().solved


@pytest.mark.parametrize("end", [{"budget": 0.0}, {"budget": 1e9, "steps": MOST_STEPS}])
def test_a_trial_that_is_out_of_time_or_steps_is_not_solved(end):
    trial = Trial(bits=6, every=100, budget=end["budget"])
    assert trial.over(end.get("steps", 100), flip_the_first)
    assert not trial.result().solved


@pytest.mark.parametrize("train", [train_ours, train_sb3])
def test_both_learn_to_flip_two_bits_and_say_what_it_cost(train):
    settings = Settings(
        num_envs=4, hidden=(32,), batch_size=32, learning_rate=1e-2, updates=2, learning_starts=100
    )
    result = train(settings, 2, lambda: Trial(bits=2, every=100, budget=30), seed=0)
    assert result.solved
    assert result.success >= 0.95
    assert result.steps % 100 == 0
    due = 2 * (result.steps - settings.learning_starts) // 4
    assert result.updates in (due - 2, due), "SB3 is looked at before it learns from a step"
    assert min(result.collecting, result.sampling, result.updating) > 0
    assert result.collecting + result.sampling + result.updating == pytest.approx(result.seconds)


def test_equal_settings_are_equal():
    ours, theirs = (SETTINGS[EQUAL][name] for name in (OURS, SB3))
    for name in ("num_envs", "hidden", "batch_size", "learning_rate", "gamma", "n_sampled_goal", "updates"):
        assert getattr(ours, name) == getattr(theirs, name)


@pytest.mark.parametrize(("factor", "verdict"), [(4.9, "MISSED"), (5, "met")])
def test_a_claim_is_met_by_the_medians_of_processor_time(factor, verdict):
    def runs(seconds):
        return [Result(1000, 10, True, 1.0, each, each, 0.1, 0.2) for each in (seconds, 0.5, 99)]

    results = {
        (kind, name): runs(time) for kind in (EQUAL, BEST) for name, time in ((OURS, 1), (SB3, factor))
    }
    assert [claim.verdict for claim in claims(results)] == [*["no promise"] * 2, verdict, "no promise"]
    assert len(outcome_grid(results).rows) == len(part_grid(results).rows) == 4
