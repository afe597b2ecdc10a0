"""Rules HB301 to HB308 on rewards of relabeled and original rows, HB701 to HB704 on n-step returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import DecodedRows, Values, differ
from her_wrappers.conformance.scenarios import GAMMA, N_STEPS
from her_wrappers.rules import Violation


def _explain(rows: DecodedRows, wrong: Values) -> tuple[str, str]:
    """Return a rule code and a text that explain all ``wrong`` rewards; ("HB301", "") if nothing does."""
    columns, desired = rows.columns, rows.columns["desired_goal"]
    before = rows.rewards_for(columns["achieved_goal"], desired)
    swapped = rows.rewards_for(desired, columns["next_achieved_goal"])
    for code, rewards, text in (
        ("HB304", rows.right.recorded_reward, "it is the reward for the original goal"),
        ("HB302", before, "it is the reward for the achieved goal before the action"),
        ("HB303", swapped, "it is the reward with both goals swapped"),
    ):
        if not differ(columns["reward"], rewards)[wrong].any():
            return code, f"; {text}"
    return "HB301", ""


def _relabeled_rule(code: str, name: str, **texts: Any) -> None:
    """Register a rule that reports wrong rewards of relabeled rows if `_explain` returns its ``code``."""

    def check(rows: DecodedRows) -> Iterator[Violation]:
        judged = rows.relabeled & rows.is_allowed
        explaining, text = _explain(rows, rows.wrong["reward"] & judged)
        if explaining == code:
            yield from rows.violation_in("reward", judged, text)

    replay_rule(code, name, implies=("HB306", "HB701"), **texts)(check)


_relabeled_rule(
    "HB301",
    "relabeled-reward",
    meaning="The reward of a relabeled row differs from the result of compute_reward for its goals.",
    fix="use the result of compute_reward(next_achieved_goal, new_goal, info) unchanged",
    wrong="reward = compute_reward(next_achieved_goal, new_goal, info) + 1",
    right="reward = compute_reward(next_achieved_goal, new_goal, info)",
    source=f"{PAPER}, algorithm 1: r' := r(s_t, a_t, g')",
)
_relabeled_rule(
    "HB302",
    "reward-of-the-present-state",
    meaning="The reward of a relabeled row is computed from the achieved goal before the action.",
    fix="pass the achieved goal of the next observation",
    wrong="compute_reward(achieved_goal, new_goal, info)",
    right="compute_reward(next_achieved_goal, new_goal, info)",
    source="Gymnasium-Robotics, GoalEnv.compute_reward; stable-baselines3, comment in _get_virtual_samples",
)
_relabeled_rule(
    "HB303",
    "reward-goals-swapped",
    meaning="compute_reward is called with the desired goal first.",
    fix="call compute_reward(achieved_goal, desired_goal, info)",
    wrong="compute_reward(new_goal, next_achieved_goal, info)",
    right="compute_reward(next_achieved_goal, new_goal, info)",
    source="hill-a/stable-baselines pull request 728",
)
_relabeled_rule(
    "HB304",
    "reward-not-recomputed",
    meaning="A relabeled row keeps the reward for its original goal.",
    fix="compute the reward of each relabeled row for its new goal",
    wrong="desired_goal[i] = new_goal",
    right="desired_goal[i] = new_goal; reward[i] = compute_reward(next_achieved_goal[i], new_goal, info[i])",
    source=f"{PAPER}, algorithm 1",
)


@replay_rule(
    "HB305",
    meaning="The reward of an original row differs from the reward with which its step was added.",
    fix="return the reward that was stored with the transition",
    wrong="reward = rewards[relabeled_indices]",
    right="reward = rewards[indices]",
    implies=("HB306", "HB308", "HB701"),
)
def original_reward(rows: DecodedRows) -> Iterator[Violation]:
    yield from rows.violation_in("reward", ~rows.relabeled)


@replay_rule(
    "HB306",
    scenario="rewards with costs",
    reports_exceptions=True,
    meaning="compute_reward does not get the info of the row's step.",
    fix="store the infos that compute_reward needs, and pass the info of each row",
    wrong="compute_reward(next_achieved_goal, new_goal, [{}] * B)",
    right="compute_reward(next_achieved_goal, new_goal, infos[indices])",
    source="stable-baselines3 issue 847, option copy_info_dict",
)
def reward_without_info(rows: DecodedRows) -> Iterator[Violation]:
    yield from rows.violation_in("reward")


@replay_rule(
    "HB307",
    severity="info",
    meaning="compute_reward is called for single rows or a few rows, which is correct but slow.",
    fix="call compute_reward once for all relabeled rows",
    wrong="rewards = [compute_reward(a, d, i) for a, d, i in rows]",
    right="rewards = compute_reward(achieved_goals, desired_goals, infos)",
    source="Gymnasium-Robotics: compute_reward takes batches of goals",
)
def reward_row_by_row(rows: DecodedRows) -> Iterator[Violation]:
    if rows.env.reward_calls > len(rows) / 4:
        yield Violation(f"compute_reward was called {rows.env.reward_calls} times for {len(rows)} rows")


@replay_rule(
    "HB308",
    severity="warning",
    scenario="rewards with a bonus",
    meaning="The reward of an original row is recomputed, so the recorded reward is lost.",
    fix="keep the rewards of original rows",
    wrong="reward = compute_reward(next_achieved_goal, desired_goal, info)  # of all rows",
    right="reward[relabeled] = compute_reward(...)",
    source=f"{PAPER}, algorithm 1: standard experience replay stores the reward for the original goal",
)
def recorded_reward_replaced(rows: DecodedRows) -> Iterator[Violation]:
    yield from rows.violation_in("reward", ~rows.relabeled)


MULTI_STEP = f"{PAPER}; Plappert et al. 2018, arXiv 1802.09464, section 4: HER and multi-step returns"


def _expected(rows: DecodedRows) -> dict[str, np.ndarray]:
    """Return a dict of (B,) arrays: the correct n-step return, next step, discount and termination."""
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
        NEXT_STEP: rows.step + steps,
        "discount": np.where(terminated, 0.0, GAMMA**steps),
        "terminated": terminated,
    }


NEXT_STEP = "step number of the next state"
"""Key of a value of n-step rows that is decoded from the next state, not returned by the buffer."""


def _window_rule(code: str, name: str, key: str, source: str = MULTI_STEP, **texts: Any) -> None:
    """Register the rule ``code``, which compares the value ``key`` of n-step rows with its expected value."""

    def check(rows: DecodedRows) -> Iterator[Violation]:
        expected = _expected(rows)[key].astype(float)
        got = rows.next_step if key == NEXT_STEP else rows.columns.get(key, expected)
        suffix = f" with n_steps={N_STEPS}"
        yield from rows.violation(differ(got, expected), key, (got, expected), suffix)

    replay_rule(code, name, scenario="n-step returns", source=source, **texts)(check)


_window_rule(
    "HB701",
    "n-step-return",
    "reward",
    reports_exceptions=True,
    meaning="An n-step return is not the discounted sum of the rewards for the goal of the row.",
    fix="compute the rewards of all steps of a window with the goal of the row",
    wrong="returns = sum(gamma**i * reward[t + i] for i in range(n))  # rewards of several goals",
    right="returns = sum(gamma**i * compute_reward(achieved[t + i + 1], goal, info) for i in range(m))",
)
_window_rule(
    "HB702",
    "n-step-window",
    NEXT_STEP,
    meaning="The steps of an n-step return continue after the episode or after a success, or end too early.",
    fix="end a window at the end of the episode, or at the first step that terminates for the row's goal",
    wrong="next_obs = observations[t + n]",
    right="next_obs = observations[t + min(n, T - t, steps_to_success)]",
    source="cpprb 11.0.0: windows reach into the next copy of a truncated episode",
    implies=("HB701", "HB704"),
)
_window_rule(
    "HB703",
    "n-step-discount",
    "discount",
    meaning="discount is not 0 in terminated rows, or not gamma**m in others, where m rewards are summed.",
    fix="use the number of rewards that were summed in each row as the exponent m",
    wrong="discount = gamma**n",
    right="discount = gamma**m * (1 - terminated)",
)
_window_rule(
    "HB704",
    "n-step-termination",
    "terminated",
    meaning="In a row with an n-step return, terminated is not the flag of the last summed step.",
    fix="return the flag of the last summed step, computed for the goal of the row",
    wrong="terminated = terminations[t]",
    right="terminated = terminations[t + m - 1]",
    implies=("HB703",),
)
