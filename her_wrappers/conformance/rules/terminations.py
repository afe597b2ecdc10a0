"""HB401 to HB407: terminations and truncations of relabeled and original rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from her_wrappers.conformance.registry import first_wrong_row, replay_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.registry import Violation
    from her_wrappers.conformance.results import ScenarioResults
    from her_wrappers.conformance.rows import DecodedRows, Values

IMPLIED = ("HB704",)


def _wrong(results: ScenarioResults) -> tuple[DecodedRows, Values] | None:
    """Return rows of episodes with all kinds of ends and the mask of wrong flags; None without flags."""
    rows = results.of("ends of episodes")
    if rows is None or "terminated" not in rows.columns:
        return None
    return rows, rows.is_allowed & rows.is_added & ~rows.has_right_termination


def _timed_out(rows: DecodedRows) -> Values:
    """Return which last steps of truncated episodes are terminated although no goal is reached, (B,) bool."""
    return (
        rows.is_last & ~rows.recorded_termination & rows.is_terminated & ~(rows.relabeled & rows.is_reached)
    )


def _recomputes(rows: DecodedRows) -> bool:
    return rows.termination in {"recompute", "success"}


@replay_rule(
    "HB401",
    "relabeled-success-continues",
    meaning="A relabeled row reaches its new goal, which ends the task, but is not terminated.",
    fix="compute terminated for the new goal, by compute_terminated or by the reward",
    wrong="terminated = stored_terminated[i]",
    right="terminated = compute_terminated(next_achieved_goal, new_goal, info)",
    source="stable-baselines3 issue 627; rlkit issue 96; openai/baselines issue 420",
    implies=("HB402", "HB403", "HB405", *IMPLIED),
)
def relabeled_success_continues(results: ScenarioResults) -> Iterator[Violation]:
    """Relabeled successes terminate."""
    found = _wrong(results)
    if found and _recomputes(found[0]):
        rows, wrong = found
        wrong = wrong & rows.relabeled & rows.is_reached & ~rows.is_terminated & ~rows.crashed
        yield from first_wrong_row(rows, wrong, "terminated True: the new goal is reached")


@replay_rule(
    "HB402",
    "relabeled-failure-terminates",
    meaning="A relabeled row is terminated although its new goal is not reached.",
    fix="compute terminated for the new goal, without the success of the original goal",
    wrong="terminated = stored_terminated[i] | success",
    right="terminated = success | goal_independent_termination[i]",
    source="stable-baselines3 issue 627",
    implies=("HB405", *IMPLIED),
)
def relabeled_failure_terminates(results: ScenarioResults) -> Iterator[Violation]:
    """Relabeled rows that do not reach their goal are not terminated."""
    found = _wrong(results)
    if found and _recomputes(found[0]):
        rows, wrong = found
        wrong = wrong & rows.relabeled & rows.is_terminated
        yield from first_wrong_row(rows, wrong, "terminated False: the new goal is not reached")


@replay_rule(
    "HB403",
    "crash-forgotten",
    meaning="A relabeled row of a goal-independent termination, such as a crash, is not terminated.",
    fix="keep recorded terminations for which compute_terminated returns False",
    wrong="terminated = compute_terminated(next_achieved_goal, new_goal, info)",
    right="terminated = compute_terminated(next_achieved_goal, new_goal, info) | crashed[i]",
    source="Gymnasium, Env.step: terminated means that a terminal state is reached",
    implies=IMPLIED,
)
def crash_forgotten(results: ScenarioResults) -> Iterator[Violation]:
    """Goal-independent terminations are kept."""
    found = _wrong(results)
    if found and _recomputes(found[0]):
        rows, wrong = found
        wrong = wrong & rows.relabeled & rows.crashed & ~rows.is_terminated
        yield from first_wrong_row(rows, wrong, "terminated True: the episode crashed")


@replay_rule(
    "HB404",
    "time-limit-terminates",
    meaning="The last step of an episode that ends by its time limit is terminated.",
    fix="store terminated, not terminated or truncated",
    wrong="done = terminated or truncated",
    right="done = terminated",
    source="Pardo et al. 2018, Time Limits in Reinforcement Learning, arXiv 1712.00378",
    implies=("HB402", "HB406", *IMPLIED),
)
def time_limit_flagged_as_terminated(results: ScenarioResults) -> Iterator[Violation]:
    """Original rows that a time limit truncated are not terminated."""
    found = _wrong(results)
    if found:
        rows, wrong = found
        wrong = wrong & ~rows.relabeled & _timed_out(rows)
        yield from first_wrong_row(rows, wrong, "terminated False: the time limit truncated the episode")


@replay_rule(
    "HB405",
    "original-termination",
    meaning="An original row does not have the termination of its step.",
    fix="return the stored flag of original rows",
    wrong="terminated = np.zeros(B, bool)",
    right="terminated = stored_terminated[indices]",
    source="Gymnasium, Env.step",
    implies=("HB403", *IMPLIED),
)
def original_termination(results: ScenarioResults) -> Iterator[Violation]:
    """Original rows have the termination of their step."""
    found = _wrong(results)
    if found:
        rows, wrong = found
        wrong = wrong & ~rows.relabeled & ~_timed_out(rows)
        yield from first_wrong_row(rows, wrong, "the termination that was added")


@replay_rule(
    "HB406",
    "documented-termination",
    meaning="Terminations of relabeled rows differ from the adapter's attribute termination.",
    fix="return the recorded flag for keep and False for never, or change the attribute",
    wrong='termination = "keep"  # while the buffer recomputes',
    right='termination = "recompute"',
    source="attribute termination of the adapter",
    implies=IMPLIED,
)
def documented_termination(results: ScenarioResults) -> Iterator[Violation]:
    """Terminations of relabeled rows are kept or always False, as the adapter documents."""
    found = _wrong(results)
    if found and not _recomputes(found[0]):
        rows, wrong = found
        expected = f"as documented: {rows.termination}"
        yield from first_wrong_row(rows, wrong & rows.relabeled, expected)


@replay_rule(
    "HB407",
    "truncation",
    "warning",
    meaning="An original row does not have the truncation of its step.",
    fix="return the stored flag",
    wrong="truncated = terminated",
    right="truncated = stored_truncated[indices]",
    source="Gymnasium, Env.step",
)
def truncation(results: ScenarioResults) -> Iterator[Violation]:
    """Original rows have the truncation of their step."""
    rows = results.of("ends of episodes")
    if rows is not None and "truncated" in rows.columns:
        expected = rows.is_last & ~rows.recorded_termination
        wrong = ~rows.relabeled & (rows.columns["truncated"].astype(bool) != expected)
        yield from first_wrong_row(rows, wrong, "truncated as it was added")
