"""Calls of the goal functions as in replay buffers: large batches, read-only views, repeated calls."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.goals import leaves
from her_wrappers.checker.values import share_memory
from her_wrappers.trees import copy_tree, map_tree

if TYPE_CHECKING:
    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.probe import CallResult, Probe
    from her_wrappers.trees import Tree

LARGE_SIZES = (64, 205, 256, 1024, 2048)
"""Batch sizes that are common in practice; 205 rows of 256 are relabeled if n_sampled_goal is 4."""

MAX_BYTES = 2**24
"""Largest size in bytes of the achieved goals of a batch; larger batches, of images, are skipped."""

REPEATED_CALLS, REPEATED_SIZE = 4, 3
"""Number and size of the batches that are computed one after another, to detect a shared output array."""


@dataclass(frozen=True)
class BufferCalls:
    """Results of calls of the goal functions as in a replay buffer.

    Attributes:
        large: For each large batch, the indices of its pairs and the result of ``compute_reward``.
        on_views: For each goal function that takes batches, its name, its result for new arrays, and its
            result for read-only strided views of the same goals.
        reused: Names of the goal functions whose results share memory.
    """

    large: list[tuple[np.ndarray, CallResult]]
    on_views: list[tuple[str, CallResult, CallResult]]
    reused: list[str]

    @classmethod
    def of(cls, evidence: Evidence) -> BufferCalls:
        """Call the goal functions of an environment whose ``compute_reward`` takes batches.

        Args:
            evidence: Evidence with at least one relabeled pair.
        """
        rows = range(len(evidence.pairs))
        on_views, reused = [], []
        for name, function in (
            ("compute_reward", evidence.reward),
            ("compute_terminated", evidence.terminated),
        ):
            if function is None:
                continue
            goals_and_infos = evidence.batch(rows)
            result = function(*goals_and_infos)
            if result.shape == (len(rows),):
                achieved, desired, infos = goals_and_infos
                views = _read_only_view(achieved), _read_only_view(desired)
                on_views.append((name, result, function.call_on_views(*views, infos)))
                reused += [name] if _reuses_output(function, evidence) else []
        return cls(_compute_large_batches(evidence), on_views, reused)


def _compute_large_batches(evidence: Evidence) -> list[tuple[np.ndarray, CallResult]]:
    if evidence.reward is None:
        return []
    rng = np.random.default_rng(evidence.seed)
    goal_bytes = sum(leaf.nbytes for leaf in leaves(evidence.pairs[0].achieved))
    sizes = [size for size in LARGE_SIZES if size * goal_bytes <= MAX_BYTES]
    batches = [rng.integers(len(evidence.pairs), size=size) for size in sizes]
    return [(rows, evidence.reward(*evidence.batch(rows.tolist()))) for rows in batches]


def _reuses_output(function: Probe, evidence: Evidence) -> bool:
    """Whether two of several outputs share memory."""
    count = len(evidence.pairs)
    calls = [
        [(REPEATED_SIZE * call + i) % count for i in range(REPEATED_SIZE)] for call in range(REPEATED_CALLS)
    ]
    try:
        outputs = [function.function(*copy_tree(evidence.batch(rows))) for rows in calls]
    except Exception:
        return False
    arrays = [output for output in outputs if isinstance(output, np.ndarray)]
    return any(share_memory(first, later) for first, later in itertools.combinations(arrays, 2))


def _read_only_view(goals: Tree) -> Any:
    """Return goals as fields of larger read-only records, as in a buffer that stores packed records."""

    def view(leaf: np.ndarray) -> np.ndarray:
        fields = [("before", leaf.dtype), ("goal", leaf.dtype, leaf.shape[1:]), ("after", leaf.dtype)]
        records = np.zeros(len(leaf), np.dtype(fields))
        records["goal"] = leaf
        records.flags.writeable = False
        goal: np.ndarray = records["goal"]
        return goal

    return map_tree(view, goals)
