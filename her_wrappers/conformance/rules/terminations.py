"""Rules HB401 to HB408 on terminations, truncations and discounts of relabeled and original rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from her_wrappers.conformance.registry import replay_rule
from her_wrappers.conformance.rows import DecodedRows, Values
from her_wrappers.conformance.scenarios import ENDS_OF_EPISODES
from her_wrappers.rules import Violation

rule = partial(replay_rule, scenario=ENDS_OF_EPISODES)


def _is_wrong(rows: DecodedRows) -> Values:
    """Return a (B,) mask of the rows whose step and goal are correct, but whose termination is wrong."""
    return rows.is_allowed & rows.is_added & rows.wrong["terminated"]


def _terminates_at_time_limit(rows: DecodedRows) -> Values:
    """Return a (B,) mask of the rows that are terminated although only the time limit ended the episode."""
    is_reached = rows.relabeled & rows.right.is_reached
    return rows.is_last & ~rows.right.recorded_end & rows.is_terminated & ~is_reached


def _wrong_recomputed(rows: DecodedRows) -> Values:
    """Return a (B,) mask of the relabeled rows whose termination should be recomputed, but is wrong."""
    return _is_wrong(rows) & rows.relabeled & (rows.termination in {"recompute", "success"})


@rule(
    "HB401",
    meaning="A relabeled row reaches its new goal, which ends the task, but is not terminated.",
    fix="compute terminated for the new goal, by compute_terminated or by the reward",
    wrong="terminated = stored_terminated[i]",
    right="terminated = compute_terminated(next_achieved_goal, new_goal, info)",
    source="stable-baselines3 issue 627; rlkit issue 96; openai/baselines issue 420",
    implies=("HB402", "HB403", "HB704"),
)
def relabeled_success_continues(rows: DecodedRows) -> Iterator[Violation]:
    wrong = _wrong_recomputed(rows) & ~rows.is_terminated & ~rows.right.crashed
    yield from rows.violation(wrong, "the new goal is reached, but terminated is False")


@rule(
    "HB402",
    meaning="A relabeled row is terminated although its new goal is not reached.",
    fix="compute terminated for the new goal, without the success of the original goal",
    wrong="terminated = stored_terminated[i] | success",
    right="terminated = success | goal_independent_termination[i]",
    source="stable-baselines3 issue 627",
    implies=("HB405", "HB704"),
)
def relabeled_failure_terminates(rows: DecodedRows) -> Iterator[Violation]:
    wrong = _wrong_recomputed(rows) & rows.is_terminated
    yield from rows.violation(wrong, "the new goal is not reached, but terminated is True")


@rule(
    "HB403",
    meaning="A relabeled row of a step that terminated independently of goals (a crash) is not terminated.",
    fix="keep recorded terminations for which compute_terminated returns False",
    wrong="terminated = compute_terminated(next_achieved_goal, new_goal, info)",
    right="terminated = compute_terminated(next_achieved_goal, new_goal, info) | crashed[i]",
    source="Gymnasium, Env.step: terminated means that a terminal state is reached",
    implies=("HB704",),
)
def crash_forgotten(rows: DecodedRows) -> Iterator[Violation]:
    wrong = _wrong_recomputed(rows) & rows.right.crashed & ~rows.is_terminated
    yield from rows.violation(wrong, "the episode crashed at this step, but terminated is False")


@rule(
    "HB404",
    meaning="The last step of an episode that ends by its time limit is terminated.",
    fix="store the flag terminated alone, without truncated",
    wrong="done = terminated or truncated",
    right="done = terminated",
    source="Pardo et al. 2018, Time Limits in Reinforcement Learning, arXiv 1712.00378",
    implies=("HB402", "HB406"),
)
def time_limit_terminates(rows: DecodedRows) -> Iterator[Violation]:
    wrong = _is_wrong(rows) & ~rows.relabeled & _terminates_at_time_limit(rows)
    yield from rows.violation(wrong, "the time limit truncated the episode, but terminated is True")


@rule(
    "HB405",
    meaning="terminated of an original row differs from the flag with which its step was added.",
    fix="return the stored flag of original rows",
    wrong="terminated = np.zeros(B, bool)",
    right="terminated = stored_terminated[indices]",
    source="Gymnasium, Env.step",
    implies=("HB403",),
)
def original_termination(rows: DecodedRows) -> Iterator[Violation]:
    judged = _is_wrong(rows) & ~rows.relabeled & ~_terminates_at_time_limit(rows)
    yield from rows.violation_in("terminated", judged)


@rule(
    "HB406",
    meaning="Relabeled rows do not terminate in the way that the adapter's attribute termination states.",
    fix='return the recorded flag for termination="keep", or False for "never"; or change the attribute',
    wrong='termination = "keep"  # while the buffer recomputes',
    right='termination = "recompute"',
    source="attribute termination of the adapter",
    implies=("HB704",),
)
def documented_termination(rows: DecodedRows) -> Iterator[Violation]:
    judged = _is_wrong(rows) & rows.relabeled & ~_wrong_recomputed(rows)
    yield from rows.violation_in("terminated", judged, f" with termination={rows.termination!r}")


@rule(
    "HB407",
    severity="warning",
    meaning="truncated of a row differs from the flag with which its step was added.",
    fix="return the flag truncated that was stored with the step",
    wrong="truncated = terminated",
    right="truncated = stored_truncated[indices]",
    source="Gymnasium, Env.step",
)
def truncation(rows: DecodedRows) -> Iterator[Violation]:
    yield from rows.violation_in("truncated")


@rule(
    "HB408",
    meaning="discount is not 0 in a terminated row, or not gamma in another row.",
    fix="return gamma * (1 - terminated)",
    wrong="discount = gamma * (1 - done)  # with done = terminated or truncated",
    right="discount = gamma * (1 - terminated)",
    source="Pardo et al. 2018, Time Limits in Reinforcement Learning, arXiv 1712.00378",
)
def discount(rows: DecodedRows) -> Iterator[Violation]:
    yield from rows.violation_in("discount")
