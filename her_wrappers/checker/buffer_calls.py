"""Calls of the goal functions as replay buffers make them: large batches, read-only views, repetitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.goals import leaves
from her_wrappers.checker.values import share_memory
from her_wrappers.trees import copy_tree, map_tree

if TYPE_CHECKING:
    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.probe import Answer, Probe
    from her_wrappers.trees import Tree

LARGE_SIZES = (64, 205, 256, 1024, 2048)
"""Batch sizes that are common in practice; 205 is the relabeled part of 256."""

MAX_BYTES = 2**24
"""Larger batches of goals (images) are not tried."""

FEW = 3
"""Size of the two batches that are computed one after another."""


@dataclass(frozen=True)
class BufferCalls:
    """Answers of the goal functions to such calls.

    Attributes:
        large: For each large batch, the indices of its pairs and the rewards.
        on_views: For each function that takes batches, its name, the answer for new arrays, and the answer
            for read-only strided views of the same goals.
        reused: Names of the functions whose second answer is in the memory of the first.
    """

    large: list[tuple[np.ndarray, Answer]]
    on_views: list[tuple[str, Answer, Answer]]
    reused: list[str]

    @classmethod
    def of(cls, evidence: Evidence) -> BufferCalls:
        """Call the goal functions of an environment whose ``compute_reward`` takes batches."""
        everything = range(len(evidence.pairs))
        on_views, reused = [], []
        for name, function in (
            ("compute_reward", evidence.reward),
            ("compute_terminated", evidence.terminated),
        ):
            if function is None:
                continue
            goals_and_infos = evidence.batch(everything)
            answer = function(*goals_and_infos)
            if answer.shape == (len(everything),):
                achieved, desired, infos = goals_and_infos
                viewed = function.on_views(_read_only_view(achieved), _read_only_view(desired), infos)
                on_views.append((name, answer, viewed))
                reused += [name] if _reuses_output(function, evidence) else []
        return cls(_large_answers(evidence), on_views, reused)


def _large_answers(evidence: Evidence) -> list[tuple[np.ndarray, Answer]]:
    if evidence.reward is None:
        return []
    rng = np.random.default_rng(evidence.seed)
    goal_bytes = sum(leaf.nbytes for leaf in leaves(evidence.pairs[0].achieved))
    sizes = [size for size in LARGE_SIZES if size * goal_bytes <= MAX_BYTES]
    batches = [rng.integers(len(evidence.pairs), size=size) for size in sizes]
    return [(rows, evidence.reward(*evidence.batch(rows.tolist()))) for rows in batches]


def _reuses_output(function: Probe, evidence: Evidence) -> bool:
    """Whether the second of two answers is in the memory of the first."""
    calls = [range(FEW), range(FEW, 2 * FEW)]
    try:
        first, second = [function.function(*copy_tree(evidence.batch(rows))) for rows in calls]
    except Exception:
        return False
    return isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and share_memory(first, second)


def _read_only_view(goals: Tree) -> Any:
    """Return goals as part of larger records that cannot be written, as buffers keep them."""

    def view(leaf: np.ndarray) -> np.ndarray:
        fields = [("before", leaf.dtype), ("goal", leaf.dtype, leaf.shape[1:]), ("after", leaf.dtype)]
        records = np.zeros(len(leaf), np.dtype(fields))
        records["goal"] = leaf
        records.flags.writeable = False
        goal: np.ndarray = records["goal"]
        return goal

    return map_tree(view, goals)
