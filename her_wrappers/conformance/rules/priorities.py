"""HB801 to HB803: priorities of transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Violation
from her_wrappers.conformance.registry import failures_of, replay_rule
from her_wrappers.conformance.statistics import LIMIT, proportion_z

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.conformance.results import ScenarioResults

PER = "Schaul et al. 2016, Prioritized Experience Replay, arXiv 1511.05952"


@replay_rule(
    "HB801",
    "priorities-ignored",
    meaning="Transitions with a high priority are not sampled more often.",
    fix="sample transitions in proportion to their priorities",
    wrong="i = rng.integers(len(self), size=B)",
    right="i = rng.choice(len(self), size=B, p=priorities / priorities.sum())",
    source=PER,
    offers=("priorities",),
    scenario="priorities",
)
def priorities_ignored(results: ScenarioResults) -> Iterator[Violation]:
    """A transition with 20 times the priority is sampled more often."""
    yield from failures_of(results, "priorities")
    result = results.of("priorities")
    if result is not None:
        before, after = ((rows.step == 0).mean() for rows in (result.before, result.after))
        if after < before + 0.1:
            yield Violation(f"{after:.0%} of the rows, {before:.0%} before", "more rows of the first steps")


@replay_rule(
    "HB802",
    "priority-changes-share",
    meaning="Whether a row is relabeled depends on its priority.",
    fix="sample the transition by its priority, then decide randomly whether to relabel it",
    wrong="relabeled = priority[i] > median",
    right="relabeled = rng.random(B) < k / (k + 1)",
    source=PER,
    offers=("priorities",),
)
def priority_changes_share(results: ScenarioResults) -> Iterator[Violation]:
    """Rows of high priority are relabeled as often as rows of low priority."""
    result = results.of("priorities")
    if result is None:
        return
    for name, chosen in (("high", result.after.step == 0), ("low", result.after.step > 0)):
        relabeled = result.after.relabeled[chosen]
        if proportion_z(int(relabeled.sum()), len(relabeled), results.share) > LIMIT:
            yield Violation(f"{relabeled.mean():.3f}", f"{results.share:.3f}", f"rows of {name} priority")


@replay_rule(
    "HB803",
    "index-ambiguous",
    meaning="index does not identify a transition, so priorities are set for other transitions.",
    fix="return the index that update_priorities expects",
    wrong='return {"index": np.arange(B), ...}',
    right='return {"index": indices, ...}',
    source=PER,
    offers=("priorities",),
    implies=("HB801", "HB802"),
)
def index_ambiguous(results: ScenarioResults) -> Iterator[Violation]:
    """An index always belongs to one transition."""
    result = results.of("priorities")
    if result is None:
        return
    index = np.concatenate([rows.columns["index"] for rows in (result.before, result.after)])
    name = np.concatenate([rows.episode * 64 + rows.step for rows in (result.before, result.after)])
    pairs = np.unique(np.stack([index.astype(np.int64), name]), axis=1)
    if len(pairs[0]) != len(np.unique(pairs[0])):
        counts = np.unique(pairs[0], return_counts=True)[1]
        yield Violation(f"up to {counts.max()} transitions with one index", "one transition for each index")
