"""HB801 to HB803: priorities of transitions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.conformance.registry import replay_rule
from her_wrappers.conformance.scenarios import RELABELED_SHARE, PrioritizedRows
from her_wrappers.conformance.statistics import LIMIT, proportion_z
from her_wrappers.rules import Violation

PER = "Schaul et al. 2016, Prioritized Experience Replay, arXiv 1511.05952"


@replay_rule(
    "HB801",
    "priorities-ignored",
    scenario="set priorities",
    reports_exceptions=True,
    meaning="Transitions with a high priority are not sampled more often.",
    fix="sample transitions in proportion to their priorities",
    wrong="i = rng.integers(len(self), size=B)",
    right="i = rng.choice(len(self), size=B, p=priorities / priorities.sum())",
    source=PER,
)
def priorities_ignored(rows: PrioritizedRows) -> Iterator[Violation]:
    before, after = ((each.step == 0).mean() for each in (rows.before, rows.after))
    if after < before + 0.1:
        yield Violation(
            f"first steps, with a priority of 20 instead of 1, are {after:.0%} of the rows, "
            f"compared with {before:.0%} before"
        )


@replay_rule(
    "HB802",
    "priority-changes-share",
    scenario="set priorities",
    meaning="Whether a row is relabeled depends on its priority.",
    fix="sample the transition by its priority, then decide randomly whether to relabel it",
    wrong="relabeled = priority[i] > median",
    right="relabeled = rng.random(B) < k / (k + 1)",
    source=PER,
)
def priority_changes_share(rows: PrioritizedRows) -> Iterator[Violation]:
    for name, chosen in (("high", rows.after.step == 0), ("low", rows.after.step > 0)):
        relabeled = rows.after.relabeled[chosen]
        if proportion_z(int(relabeled.sum()), len(relabeled), RELABELED_SHARE) > LIMIT:
            found = f"{relabeled.mean():.3f} of the rows of {name} priority are relabeled"
            yield Violation(f"{found} instead of {RELABELED_SHARE:.3f}")


@replay_rule(
    "HB803",
    "index-ambiguous",
    scenario="set priorities",
    meaning="index does not identify a transition, so priorities are set for other transitions.",
    fix="return the index that update_priorities expects",
    wrong='return {"index": np.arange(B), ...}',
    right='return {"index": indices, ...}',
    source=PER,
    implies=("HB801", "HB802"),
)
def index_ambiguous(rows: PrioritizedRows) -> Iterator[Violation]:
    index = np.concatenate([each.columns["index"] for each in (rows.before, rows.after)])
    name = np.concatenate([each.episode * 64 + each.step for each in (rows.before, rows.after)])
    pairs = np.unique(np.stack([index.astype(np.int64), name]), axis=1)
    if len(pairs[0]) != len(np.unique(pairs[0])):
        most = np.unique(pairs[0], return_counts=True)[1].max()
        yield Violation(f"one index belongs to up to {most} transitions")
