"""GE119, GE121, GE122: the goal functions give right results when they are called as in replay buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.probe import describe_result, same_result
from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import ABSOLUTE, RELATIVE, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence


@rule(
    "GE119",
    "reward-batch-size",
    "error",
    meaning="compute_reward raises or returns other rewards for batches as large as those of replay buffers.",
    fix="compute each row in the same way for every batch size",
    needs=("batch",),
    wrong="""
rewards = -np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return np.where(np.arange(len(rewards)) < 100, rewards, 0)""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_batch_size(evidence: Evidence) -> Iterator[Violation]:
    """The reward of a pair of goals does not depend on the size of the batch."""
    numbers = [result.number for result in evidence.pair_results]
    single = np.array([np.nan if number is None else number for number in numbers])
    for rows, result in evidence.buffer_calls.large if evidence.buffer_calls else ():
        if result.shape != (len(rows),) or result.numbers is None:
            got = result.error_text or f"shape {result.shape}"
            yield Violation(got, f"shape ({len(rows)},) for {len(rows)} goals")
            continue
        wrong = ~np.isclose(result.numbers, single[rows], RELATIVE, ABSOLUTE, equal_nan=True)
        for i in np.flatnonzero(wrong & ~np.isnan(single[rows]))[:1]:
            yield Violation(
                show(result.numbers[i]),
                f"{show(single[rows][i])} as for this pair of goals alone",
                f"row {i} of {len(rows)} relabeled goals",
            )


@rule(
    "GE121",
    "goals-read-only",
    "error",
    meaning="A goal function raises or returns other values for read-only strided arrays, as in buffers.",
    fix="never write to an argument; call np.ascontiguousarray where the memory layout matters",
    needs=("batch",),
    wrong="""
achieved_goal -= desired_goal
reward = -np.linalg.norm(achieved_goal, axis=-1)
achieved_goal += desired_goal""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def goals_read_only(evidence: Evidence) -> Iterator[Violation]:
    """The result depends on the values of the goals, not on their memory layout."""
    for name, result, view_result in evidence.buffer_calls.on_views if evidence.buffer_calls else ():
        if not same_result(result, view_result):
            expected = f"{describe_result(result)} as for contiguous writable arrays"
            yield Violation(describe_result(view_result), expected, subject=name)


@rule(
    "GE122",
    "output-reused",
    "error",
    meaning="A goal function reuses its output array, so that a call changes the results of earlier calls.",
    fix="return a new array at each call",
    needs=("batch",),
    wrong="""
np.negative(distance, out=self._rewards[: len(distance)])
return self._rewards[: len(distance)]""",
    right="return -distance",
)
def output_reused(evidence: Evidence) -> Iterator[Violation]:
    """A result does not change when the function is called again."""
    for name in evidence.buffer_calls.reused if evidence.buffer_calls else ():
        yield Violation("an array that shares memory with an earlier result", "a new array", subject=name)
