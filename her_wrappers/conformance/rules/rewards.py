"""HB301 to HB308: rewards of relabeled and original rows. HB501: precision of goals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Violation
from her_wrappers.conformance.registry import (
    PAPER,
    failures_of,
    first_wrong_row,
    replay_rule,
)
from her_wrappers.conformance.results import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.registry import Check
    from her_wrappers.conformance.results import ScenarioResults
    from her_wrappers.conformance.rows import DecodedRows

IMPLIED = ("HB306", "HB701")


def _explanation(rows: DecodedRows) -> str:
    """Return the code of the rule that explains all wrong rewards of relabeled rows; "" if none is wrong."""
    wrong = rows.relabeled & rows.is_allowed & ~rows.has_right_reward
    if not wrong.any():
        return ""
    columns, desired = rows.columns, rows.columns["desired_goal"]
    for code, rewards in (
        ("HB304", rows.recorded),
        ("HB302", rows.rewards_for(columns["achieved_goal"], desired)),
        ("HB303", rows.rewards_for(desired, columns["next_achieved_goal"])),
    ):
        if rows.has_rewards(rewards)[wrong].all():
            return code
    return "HB301"


def _relabeled(code: str, expected: str) -> Check:
    """Return the check of rule ``code``: the first wrong relabeled reward, if the rule explains them all."""

    def check(results: ScenarioResults) -> Iterator[Violation]:
        """Rewards of relabeled rows are right, or another rule explains the wrong ones."""
        result = results.of(FIRST)
        if result is not None and _explanation(result.rows) == code:
            rows = result.rows
            wrong = rows.relabeled & rows.is_allowed & ~rows.has_right_reward
            i = int(np.flatnonzero(wrong)[0])
            got = f"{rows.columns['reward'][i]:.4g}"
            often = f"{int(wrong.sum())} of {len(rows)} rows"
            yield Violation(got, f"{rows.recomputed[i]:.4g}, {expected}", rows.describe(i), hint=often)

    return check


replay_rule(
    "HB301",
    "relabeled-reward",
    meaning="The reward of a relabeled row differs from the result of compute_reward for its goals.",
    fix="use the result of compute_reward(next_achieved_goal, new_goal, info) unchanged",
    wrong="reward = compute_reward(next_achieved_goal, new_goal, info) + 1",
    right="reward = compute_reward(next_achieved_goal, new_goal, info)",
    source=f"{PAPER}, algorithm 1: r' := r(s_t, a_t, g')",
    implies=IMPLIED,
)(_relabeled("HB301", "the result of compute_reward"))


replay_rule(
    "HB302",
    "reward-of-the-present-state",
    meaning="The reward of a relabeled row is computed from the achieved goal before the action.",
    fix="pass the next achieved goal",
    wrong="compute_reward(achieved_goal, new_goal, info)",
    right="compute_reward(next_achieved_goal, new_goal, info)",
    source="Gymnasium-Robotics, GoalEnv.compute_reward; stable-baselines3, comment in _get_virtual_samples",
    implies=IMPLIED,
)(_relabeled("HB302", "of the next achieved goal"))


replay_rule(
    "HB303",
    "reward-goals-swapped",
    meaning="compute_reward is called with the desired goal first.",
    fix="pass the achieved goal first",
    wrong="compute_reward(new_goal, next_achieved_goal, info)",
    right="compute_reward(next_achieved_goal, new_goal, info)",
    source="hill-a/stable-baselines pull request 728",
    implies=IMPLIED,
)(_relabeled("HB303", "with the achieved goal as first argument"))


replay_rule(
    "HB304",
    "reward-not-recomputed",
    meaning="A relabeled row keeps the reward for its original goal.",
    fix="compute the rewards of relabeled rows",
    wrong="desired_goal[i] = new_goal",
    right="desired_goal[i] = new_goal; reward[i] = compute_reward(next_achieved_goal[i], new_goal, info[i])",
    source=f"{PAPER}, algorithm 1",
    implies=IMPLIED,
)(_relabeled("HB304", "under the new goal"))


@replay_rule(
    "HB305",
    "original-reward",
    meaning="An original row does not have the reward of its step.",
    fix="return the stored reward of the same index",
    wrong="reward = rewards[relabeled_indices]",
    right="reward = rewards[indices]",
    source=PAPER,
    implies=("HB308", *IMPLIED),
)
def original_reward(results: ScenarioResults) -> Iterator[Violation]:
    """Original rows have the reward of their step."""
    result = results.of(FIRST)
    if result is not None:
        rows = result.rows
        yield from first_wrong_row(rows, ~rows.relabeled & ~rows.has_right_reward, "the reward of the step")


@replay_rule(
    "HB306",
    "reward-without-info",
    meaning="compute_reward does not get the info of the row's step.",
    fix="store the infos that compute_reward needs, and pass the info of each row",
    wrong="compute_reward(next_achieved_goal, new_goal, [{}] * B)",
    right="compute_reward(next_achieved_goal, new_goal, infos[indices])",
    source="stable-baselines3 issue 847, option copy_info_dict",
    offers=("infos",),
    scenario="infos",
)
def reward_without_info(results: ScenarioResults) -> Iterator[Violation]:
    """Rewards that depend on infos are correct."""
    yield from failures_of(results, "infos")
    rows = results.of("infos")
    if rows is not None:
        yield from first_wrong_row(rows, ~rows.has_right_reward, "a reward with the cost of the row's step")


@replay_rule(
    "HB307",
    "reward-row-by-row",
    "info",
    meaning="compute_reward is called for single rows or a few rows, which is correct but slow.",
    fix="call compute_reward once for all relabeled rows",
    wrong="rewards = [compute_reward(a, d, i) for a, d, i in rows]",
    right="rewards = compute_reward(achieved_goals, desired_goals, infos)",
    source="Gymnasium-Robotics: compute_reward takes batches of goals",
)
def reward_row_by_row(results: ScenarioResults) -> Iterator[Violation]:
    """Sampling calls compute_reward at most once for every four rows."""
    result = results.of(FIRST)
    if result is not None and result.reward_calls > len(result.rows) / 4:
        got = f"{result.reward_calls} calls for {len(result.rows)} rows"
        yield Violation(got, "one call for each batch")


@replay_rule(
    "HB308",
    "recorded-reward-replaced",
    "warning",
    meaning="The reward of an original row is recomputed, so the recorded reward is lost.",
    fix="keep the rewards of original rows",
    wrong="reward = compute_reward(next_achieved_goal, desired_goal, info)  # of all rows",
    right="reward[relabeled] = compute_reward(...)",
    source=f"{PAPER}, algorithm 1: standard experience replay stores the reward for the original goal",
    offers=("recorded rewards",),
)
def recorded_reward_replaced(results: ScenarioResults) -> Iterator[Violation]:
    """Original rows keep rewards that compute_reward does not return."""
    rows = results.of("recorded rewards")
    if rows is not None:
        yield from first_wrong_row(
            rows, ~rows.relabeled & ~rows.has_right_reward, "the reward that was added"
        )


IMPLIED_BY_DTYPE = ("HB502", "HB503")


@replay_rule(
    "HB501",
    "goal-precision",
    meaning="Goals lose precision: their dtype or their values differ from those of the environment.",
    fix="allocate arrays with the dtype of the goal space",
    wrong="desired_goal = np.zeros((size, goal_size), np.float32)",
    right='desired_goal = np.zeros((size, goal_size), env.observation_space["desired_goal"].dtype)',
    source="Gymnasium-Robotics: goals are float64, and thresholds are compared in float64",
    implies=IMPLIED_BY_DTYPE,
)
def goal_precision(results: ScenarioResults) -> Iterator[Violation]:
    """Goals have exactly the dtype and the values of the environment."""
    result = results.of(FIRST)
    if result is None:
        return
    rows = result.rows
    for key in ("achieved_goal", "desired_goal", "next_achieved_goal"):
        episode, code = rows.env.decode(rows.columns[key])
        exact = rows.env.encode(np.maximum(episode, 0), code)
        if rows.columns[key].dtype != exact.dtype or not np.array_equal(rows.columns[key], exact):
            got = f"{rows.columns[key].dtype}: {rows.columns[key][0].tolist()}"
            yield Violation(got, f"{exact.dtype}: {exact[0].tolist()}", subject=key)
