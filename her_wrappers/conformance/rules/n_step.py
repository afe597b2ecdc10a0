"""HB701 to HB704: n-step returns use one goal."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from her_wrappers.checker.registry import Violation
from her_wrappers.conformance.env import UNREACHED
from her_wrappers.conformance.registry import PAPER, failures_of, replay_rule
from her_wrappers.conformance.scenarios.options import GAMMA, N_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.conformance.results import ScenarioResults
    from her_wrappers.conformance.rows import DecodedRows

MULTI_STEP = f"{PAPER}; Plappert et al. 2018, arXiv 1802.09464, section 4: HER and multi-step returns"


class ExpectedReturns(NamedTuple):
    """Expected values of each row: return, number of summed steps m, and termination."""

    returns: np.ndarray
    steps: np.ndarray
    terminated: np.ndarray


@lru_cache(maxsize=8)
def expected_returns(rows: DecodedRows) -> ExpectedReturns:
    """Return the expected values of windows of up to N_STEPS steps under the goal of each row."""
    env, columns = rows.env, rows.columns
    returns, steps = np.zeros(len(rows)), np.zeros(len(rows), int)
    terminated, running = np.zeros(len(rows), bool), np.ones(len(rows), bool)
    crash = np.array([episode.end == "crash" for episode in env.episodes])
    for m in range(N_STEPS):
        running &= rows.step + m < rows.length
        achieved = env.encode(np.maximum(rows.episode, 0), np.minimum(rows.step + m + 1, UNREACHED - 1))
        rewards = rows.rewards_for(achieved, columns["desired_goal"])
        returns += np.where(running, GAMMA**m * rewards, 0.0)
        steps += running
        reached = np.asarray(env.compute_terminated(achieved, columns["desired_goal"], None), bool)
        crashed = (rows.step + m + 1 == rows.length) & rows.of_episode(crash)
        if rows.termination == "keep":
            ended = crashed
        else:
            ended = np.where(rows.relabeled, (reached | crashed) & (rows.termination != "never"), crashed)
        terminated |= running & ended
        running &= ~ended
    return ExpectedReturns(returns, steps, terminated)


def _differences(results: ScenarioResults, name: str) -> Iterator[Violation]:
    rows = results.of("n steps")
    if rows is None:
        return
    expected = expected_returns(rows)
    discount = np.where(expected.terminated, 0.0, GAMMA**expected.steps)
    wanted, got = {
        "return": (expected.returns, rows.columns["reward"]),
        "next state": (rows.step + expected.steps, rows.next_step),
        "discount": (discount, rows.columns.get("discount", discount)),
        "terminated": (expected.terminated, rows.columns.get("terminated", expected.terminated)),
    }[name]
    wrong = np.abs(wanted.astype(float) - got.astype(float)) > 1e-4
    for i in np.flatnonzero(wrong)[:1]:
        hint = f"{int(wrong.sum())} of {len(rows)} rows"
        yield Violation(f"{name} {got[i]:.5g}", f"{wanted[i]:.5g}", rows.describe(int(i)), hint=hint)


@replay_rule(
    "HB701",
    "n-step-return",
    meaning="An n-step return is not the discounted sum of the rewards under the goal of the row.",
    fix="compute the rewards of all steps of a window with the goal of the row",
    wrong="returns = sum(gamma**i * reward[t + i] for i in range(n))  # rewards of several goals",
    right="returns = sum(gamma**i * compute_reward(achieved[t + i + 1], goal, info) for i in range(m))",
    source=MULTI_STEP,
    offers=("n-step",),
    scenario="n steps",
)
def n_step_return(results: ScenarioResults) -> Iterator[Violation]:
    """Returns are the discounted sums of the rewards of windows."""
    yield from failures_of(results, "n steps")
    yield from _differences(results, "return")


@replay_rule(
    "HB702",
    "n-step-window",
    meaning="An n-step window continues after the end of its episode or after success, or ends too early.",
    fix="end a window at the end of its episode and at the first step that terminates under its goal",
    wrong="next_obs = observations[t + n]",
    right="next_obs = observations[t + min(n, T - t, steps_to_success)]",
    source="cpprb 11.0.0: windows reach into the next copy of a truncated episode",
    offers=("n-step",),
    implies=("HB701", "HB703", "HB704"),
)
def n_step_window(results: ScenarioResults) -> Iterator[Violation]:
    """The next state is the state at the end of the window."""
    yield from _differences(results, "next state")


@replay_rule(
    "HB703",
    "n-step-discount",
    meaning="discount is not gamma to the power of the number of summed steps, and 0 if terminated.",
    fix="use the number of steps of each window",
    wrong="discount = gamma**n",
    right="discount = gamma**m * (1 - terminated)",
    source=MULTI_STEP,
    offers=("n-step",),
)
def n_step_discount(results: ScenarioResults) -> Iterator[Violation]:
    """Discounts are gamma to the power of the number of steps of the window, or 0 after a termination."""
    yield from _differences(results, "discount")


@replay_rule(
    "HB704",
    "n-step-termination",
    meaning="terminated is not the flag of the last step of the window.",
    fix="return the flag of the last summed step under the goal of the row",
    wrong="terminated = terminations[t]",
    right="terminated = terminations[t + m - 1]",
    source=MULTI_STEP,
    offers=("n-step",),
    implies=("HB703",),
)
def n_step_termination(results: ScenarioResults) -> Iterator[Violation]:
    """Terminations are the flags at the end of the window."""
    yield from _differences(results, "terminated")
