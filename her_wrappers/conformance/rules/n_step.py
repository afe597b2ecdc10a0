"""HB701 to HB704: n-step returns use one goal."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from her_wrappers.conformance.env import UNREACHED
from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import DecodedRows
from her_wrappers.conformance.scenarios import GAMMA, N_STEPS
from her_wrappers.rules import Check, Violation

rule = partial(replay_rule, scenario="n-step returns")

MULTI_STEP = f"{PAPER}; Plappert et al. 2018, arXiv 1802.09464, section 4: HER and multi-step returns"


def _expected(rows: DecodedRows) -> dict[str, np.ndarray]:
    """Return the (B,) expected values of windows of up to N_STEPS steps under the goal of each row."""
    env, desired = rows.env, rows.columns["desired_goal"]
    returns, steps = np.zeros(len(rows)), np.zeros(len(rows), int)
    terminated, running = np.zeros(len(rows), bool), np.ones(len(rows), bool)
    for m in range(N_STEPS):
        running &= rows.step + m < rows.length
        achieved = env.encode(np.maximum(rows.episode, 0), np.minimum(rows.step + m + 1, UNREACHED - 1))
        returns += np.where(running, GAMMA**m * rows.rewards_for(achieved, desired), 0.0)
        steps += running
        ended = crashed = (rows.step + m + 1 == rows.length) & rows.crashes
        if rows.termination != "keep":
            reached = np.asarray(env.compute_terminated(achieved, desired, None), bool)
            ended = np.where(rows.relabeled, (reached | crashed) & (rows.termination != "never"), crashed)
        terminated |= running & ended
        running &= ~ended
    return {
        "reward": returns,
        "next state": rows.step + steps,
        "discount": np.where(terminated, 0.0, GAMMA**steps),
        "terminated": terminated,
    }


def _equals(name: str) -> Check:
    """Return the check that ``name`` has the expected value in all rows with 3-step returns."""

    def check(rows: DecodedRows) -> Iterator[Violation]:
        expected = _expected(rows)[name].astype(float)
        got = rows.next_step if name == "next state" else rows.columns.get(name, expected)
        yield from rows.violation(
            np.abs(expected - got.astype(float)) > 1e-4,
            lambda i: f"{name} is {got[i]:.5g} instead of {expected[i]:.5g} with n_steps={N_STEPS}",
        )

    return check


rule(
    "HB701",
    "n-step-return",
    reports_exceptions=True,
    meaning="An n-step return is not the discounted sum of the rewards under the goal of the row.",
    fix="compute the rewards of all steps of a window with the goal of the row",
    wrong="returns = sum(gamma**i * reward[t + i] for i in range(n))  # rewards of several goals",
    right="returns = sum(gamma**i * compute_reward(achieved[t + i + 1], goal, info) for i in range(m))",
    source=MULTI_STEP,
)(_equals("reward"))
rule(
    "HB702",
    "n-step-window",
    meaning="An n-step window continues after the end of its episode or after success, or ends too early.",
    fix="end a window at the end of its episode and at the first step that terminates under its goal",
    wrong="next_obs = observations[t + n]",
    right="next_obs = observations[t + min(n, T - t, steps_to_success)]",
    source="cpprb 11.0.0: windows reach into the next copy of a truncated episode",
    implies=("HB701", "HB704"),
)(_equals("next state"))
rule(
    "HB703",
    "n-step-discount",
    meaning="discount is not gamma to the power of the number of summed steps, and 0 if terminated.",
    fix="use the number of steps of each window",
    wrong="discount = gamma**n",
    right="discount = gamma**m * (1 - terminated)",
    source=MULTI_STEP,
)(_equals("discount"))
rule(
    "HB704",
    "n-step-termination",
    meaning="terminated is not the flag of the last step of the window.",
    fix="return the flag of the last summed step under the goal of the row",
    wrong="terminated = terminations[t]",
    right="terminated = terminations[t + m - 1]",
    source=MULTI_STEP,
    implies=("HB703",),
)(_equals("terminated"))
