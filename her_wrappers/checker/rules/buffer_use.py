"""GE119 to GE122: the goal functions work as replay buffers call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.probe import describe_answer, same_answer
from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import ABSOLUTE, RELATIVE, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence


@rule(
    "GE119",
    "reward-batch-size",
    "error",
    meaning="compute_reward raises or gives other rewards for large batches, as replay buffers compute them.",
    fix="compute rows in the same way for every batch size",
    needs=("batch",),
    wrong="""
rewards = -np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return np.where(np.arange(len(rewards)) < 100, rewards, 0)""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_batch_size(evidence: Evidence) -> Iterator[Violation]:
    """The reward of a pair of goals does not depend on the size of the batch."""
    alone = np.array([np.nan if row.number is None else row.number for row in evidence.rows])
    for rows, answer in evidence.buffer_calls.large if evidence.buffer_calls else ():
        if answer.shape != (len(rows),) or answer.numbers is None:
            got = answer.raised or f"shape {answer.shape}"
            yield Violation(got, f"shape ({len(rows)},) for {len(rows)} goals")
            continue
        wrong = ~np.isclose(answer.numbers, alone[rows], RELATIVE, ABSOLUTE, equal_nan=True)
        for i in np.flatnonzero(wrong & ~np.isnan(alone[rows]))[:1]:
            yield Violation(
                show(answer.numbers[i]),
                f"{show(alone[rows][i])} as alone",
                f"row {i} of {len(rows)} relabeled goals",
            )


@rule(
    "GE121",
    "goals-read-only",
    "error",
    meaning="A goal function fails on read-only or strided arrays, which replay buffers pass to save copies.",
    fix="never write to an argument, and use np.ascontiguousarray where the order of the memory matters",
    needs=("batch",),
    wrong="""
achieved_goal -= desired_goal
reward = -np.linalg.norm(achieved_goal, axis=-1)
achieved_goal += desired_goal""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def goals_read_only(evidence: Evidence) -> Iterator[Violation]:
    """The answer depends on the values of the goals, not on their memory."""
    for name, answer, on_views in evidence.buffer_calls.on_views if evidence.buffer_calls else ():
        if not same_answer(answer, on_views):
            expected = f"{describe_answer(answer)} as for other arrays"
            yield Violation(describe_answer(on_views), expected, subject=name)


@rule(
    "GE122",
    "output-reused",
    "error",
    meaning="A goal function returns the same array at every call, so that a call changes earlier answers.",
    fix="return a new array",
    needs=("batch",),
    wrong="""
np.negative(distance, out=self._rewards[: len(distance)])
return self._rewards[: len(distance)]""",
    right="return -distance",
)
def output_reused(evidence: Evidence) -> Iterator[Violation]:
    """An answer does not change later."""
    for name in evidence.buffer_calls.reused if evidence.buffer_calls else ():
        yield Violation("an array in the memory of the answer before", "a new array", subject=name)
