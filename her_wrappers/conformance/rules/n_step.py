"""HB701 to HB704: n-step returns use one goal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import DecodedRows, differ, unequal
from her_wrappers.conformance.scenarios import GAMMA, N_STEPS
from her_wrappers.rules import Violation

MULTI_STEP = f"{PAPER}; Plappert et al. 2018, arXiv 1802.09464, section 4: HER and multi-step returns"


def _expected(rows: DecodedRows) -> dict[str, np.ndarray]:
    """Return the (B,) expected values of windows of up to N_STEPS steps under the goal of each row."""
    returns, steps = np.zeros(len(rows)), np.zeros(len(rows), int)
    terminated, running = np.zeros(len(rows), bool), np.ones(len(rows), bool)
    for m in range(N_STEPS):
        running &= rows.step + m < rows.length
        right = rows.values_of_step(m)
        returns += np.where(running, GAMMA**m * right.reward, 0.0)
        steps += running
        terminated |= running & right.terminated
        running &= ~right.terminated
    return {
        "reward": returns,
        "next state": rows.step + steps,
        "discount": np.where(terminated, 0.0, GAMMA**steps),
        "terminated": terminated,
    }


def _window_rule(code: str, name: str, key: str, source: str = MULTI_STEP, **texts: Any) -> None:
    """Add the rule that ``key`` has the expected value in all rows with 3-step returns."""

    def check(rows: DecodedRows) -> Iterator[Violation]:
        expected = _expected(rows)[key].astype(float)
        got = rows.next_step if key == "next state" else rows.columns.get(key, expected)
        message = unequal(key, got, expected, f" with n_steps={N_STEPS}")
        yield from rows.violation(differ(got, expected), message)

    replay_rule(code, name, scenario="n-step returns", source=source, **texts)(check)


_window_rule(
    "HB701",
    "n-step-return",
    "reward",
    reports_exceptions=True,
    meaning="An n-step return is not the discounted sum of the rewards under the goal of the row.",
    fix="compute the rewards of all steps of a window with the goal of the row",
    wrong="returns = sum(gamma**i * reward[t + i] for i in range(n))  # rewards of several goals",
    right="returns = sum(gamma**i * compute_reward(achieved[t + i + 1], goal, info) for i in range(m))",
)
_window_rule(
    "HB702",
    "n-step-window",
    "next state",
    meaning="An n-step window continues after the end of its episode or after success, or ends too early.",
    fix="end a window at the end of its episode and at the first step that terminates under its goal",
    wrong="next_obs = observations[t + n]",
    right="next_obs = observations[t + min(n, T - t, steps_to_success)]",
    source="cpprb 11.0.0: windows reach into the next copy of a truncated episode",
    implies=("HB701", "HB704"),
)
_window_rule(
    "HB703",
    "n-step-discount",
    "discount",
    meaning="discount is not gamma to the power of the number of summed steps, and 0 if terminated.",
    fix="use the number of steps of each window",
    wrong="discount = gamma**n",
    right="discount = gamma**m * (1 - terminated)",
)
_window_rule(
    "HB704",
    "n-step-termination",
    "terminated",
    meaning="terminated is not the flag of the last step of the window.",
    fix="return the flag of the last summed step under the goal of the row",
    wrong="terminated = terminations[t]",
    right="terminated = terminations[t + m - 1]",
    implies=("HB703",),
)
