"""HB301 to HB308: rewards of relabeled and original rows. HB501: precision of goals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import GOAL_KEYS, DecodedRows, Values, differ
from her_wrappers.conformance.scenarios import EqualEpisodes
from her_wrappers.rules import Violation


def _explain(rows: DecodedRows, wrong: Values) -> tuple[str, str]:
    """Return the code of the rule that explains all wrong rewards, and the explanation."""
    columns, desired = rows.columns, rows.columns["desired_goal"]
    before = rows.rewards_for(columns["achieved_goal"], desired)
    swapped = rows.rewards_for(desired, columns["next_achieved_goal"])
    for code, rewards, text in (
        ("HB304", rows.right.recorded_reward, "it is the reward for the original goal"),
        ("HB302", before, "it fits the achieved goal before the action"),
        ("HB303", swapped, "it fits the goals if swapped"),
    ):
        if not differ(columns["reward"], rewards)[wrong].any():
            return code, f"; {text}"
    return "HB301", ""


def _relabeled_rule(code: str, name: str, **texts: Any) -> None:
    """Add the rule that reports the first wrong relabeled reward, if ``code`` explains them all."""

    def check(equal: EqualEpisodes) -> Iterator[Violation]:
        judged = equal.rows.relabeled & equal.rows.is_allowed
        explaining, text = _explain(equal.rows, equal.rows.wrong["reward"] & judged)
        if explaining == code:
            yield from equal.rows.violation_in("reward", judged, text)

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
    fix="pass the next achieved goal",
    wrong="compute_reward(achieved_goal, new_goal, info)",
    right="compute_reward(next_achieved_goal, new_goal, info)",
    source="Gymnasium-Robotics, GoalEnv.compute_reward; stable-baselines3, comment in _get_virtual_samples",
)
_relabeled_rule(
    "HB303",
    "reward-goals-swapped",
    meaning="compute_reward is called with the desired goal first.",
    fix="pass the achieved goal first",
    wrong="compute_reward(new_goal, next_achieved_goal, info)",
    right="compute_reward(next_achieved_goal, new_goal, info)",
    source="hill-a/stable-baselines pull request 728",
)
_relabeled_rule(
    "HB304",
    "reward-not-recomputed",
    meaning="A relabeled row keeps the reward for its original goal.",
    fix="compute the rewards of relabeled rows",
    wrong="desired_goal[i] = new_goal",
    right="desired_goal[i] = new_goal; reward[i] = compute_reward(next_achieved_goal[i], new_goal, info[i])",
    source=f"{PAPER}, algorithm 1",
)


@replay_rule(
    "HB305",
    meaning="An original row does not have the reward of its step.",
    fix="return the stored reward of the same index",
    wrong="reward = rewards[relabeled_indices]",
    right="reward = rewards[indices]",
    implies=("HB306", "HB308", "HB701"),
)
def original_reward(equal: EqualEpisodes) -> Iterator[Violation]:
    yield from equal.rows.violation_in("reward", ~equal.rows.relabeled)


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
def reward_row_by_row(equal: EqualEpisodes) -> Iterator[Violation]:
    if equal.reward_calls > len(equal.rows) / 4:
        yield Violation(f"compute_reward was called {equal.reward_calls} times for {len(equal.rows)} rows")


@replay_rule(
    "HB308",
    severity="warning",
    scenario="rewards with a bonus",
    meaning="The reward of an original row is recomputed, so the recorded reward is lost.",
    fix="keep the rewards of original rows",
    wrong="reward = compute_reward(next_achieved_goal, desired_goal, info)  # of all rows",
    right="reward[relabeled] = compute_reward(...)",
    source=f"{PAPER}, algorithm 1: standard experience replay stores the reward for the original goal",
    implies=("HB509",),
)
def recorded_reward_replaced(rows: DecodedRows) -> Iterator[Violation]:
    yield from rows.violation_in("reward", ~rows.relabeled)


@replay_rule(
    "HB501",
    meaning="Goals lose precision: their dtype or their values differ from those of the environment.",
    fix="allocate arrays with the dtype of the goal space",
    wrong="desired_goal = np.zeros((size, goal_size), np.float32)",
    right='desired_goal = np.zeros((size, goal_size), env.observation_space["desired_goal"].dtype)',
    source="Gymnasium-Robotics: goals are float64, and thresholds are compared in float64",
    implies=("HB502", "HB503"),
)
def goal_precision(equal: EqualEpisodes) -> Iterator[Violation]:
    rows = equal.rows
    for key in GOAL_KEYS:
        episode, code = rows.env.decode(rows.columns[key])
        exact, got = rows.env.encode(np.maximum(episode, 0), code), rows.columns[key]
        if got.dtype != exact.dtype or not np.array_equal(got, exact):
            yield Violation(
                f"a goal is {got[0].tolist()} ({got.dtype}) instead of {exact[0].tolist()} ({exact.dtype})",
                subject=key,
            )
