"""Rules HB801 to HB806 on priorities, and HB901 to HB903 on demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from her_wrappers.conformance.registry import replay_rule
from her_wrappers.conformance.rows import ENOUGH
from her_wrappers.conformance.rules.sampling import wrong_relabeled_share, wrong_share
from her_wrappers.conformance.scenarios import (
    DEMONSTRATIONS,
    PRIORITIZED_CAPACITY,
    SHARE,
    Prioritized,
    Result,
)
from her_wrappers.conformance.uniformity import LIMIT, largest_count_z
from her_wrappers.rules import Check, Violation

PER = "Schaul et al. 2016, Prioritized Experience Replay, arXiv 1511.05952"


def _priority_rule(code: str, **texts: Any) -> Callable[[Check], Check]:
    """Return a decorator for the rule ``code``; the function judges rows of the scenario "set priorities"."""

    def add(judge: Check) -> Check:
        def check(result: Result) -> Iterator[Violation]:
            for situation, sampled in result.facts.rounds.items():
                if judge is index_ambiguous or not list(index_ambiguous(sampled)):
                    yield from (replace(each, place=situation) for each in judge(sampled))

        name = judge.__name__.replace("_", "-")
        replay_rule(code, name, scenarios=("set priorities",), source=PER, **texts)(check)
        return judge

    return add


@_priority_rule(
    "HB803",
    meaning="index does not identify a transition, so priorities are set for other transitions.",
    fix="return the index that update_priorities expects",
)
def index_ambiguous(sampled: Prioritized) -> Iterator[Violation]:
    index = sampled.rows.columns["index"].astype(np.int64)
    pairs = np.unique(np.stack([index, sampled.rows.transition]), axis=1)
    most = np.unique(pairs[0], return_counts=True)[1].max()
    if most > 1:
        yield Violation(f"rows of {most} different transitions have the same index")


@_priority_rule(
    "HB801",
    meaning="Transitions with a high priority are not sampled more often.",
    fix="sample transitions in proportion to their priorities, also after loading and evicting episodes",
)
def priorities_ignored(sampled: Prioritized) -> Iterator[Violation]:
    is_first = sampled.rows.episode < sampled.rows.episode.max() / 2  # stored before the others
    for part in (sampled.is_old & is_first, sampled.is_old & ~is_first):
        if part.any() and sampled.is_high[part].mean() < 0.35:
            share = f"only {sampled.is_high[part].mean():.0%} of the rows have priority 20"
            yield Violation(f"one transition in 4 has priority 20, the others have priority 1, but {share}")


@_priority_rule(
    "HB802",
    meaning="Whether a row is relabeled depends on its priority.",
    fix="sample the transition by its priority, then decide randomly whether to relabel it",
)
def priority_changes_share(sampled: Prioritized) -> Iterator[Violation]:
    for part in (sampled.is_high, ~sampled.is_high):
        yield from wrong_relabeled_share(sampled.rows, among=part)


@_priority_rule(
    "HB804",
    meaning="The importance weights do not correct for how often rows are sampled.",
    fix="return weights proportional to (sampling probability)^-beta, or no weights",
)
def importance_weights(sampled: Prioritized) -> Iterator[Violation]:
    weight = sampled.rows.columns.get("weight", np.empty(0)).astype(float)
    if not (np.isfinite(weight) & (weight > 0)).all():
        yield Violation("a weight is not a positive number")
    elif len(weight) and not list(priorities_ignored(sampled)):
        low, high = sampled.is_old & ~sampled.is_high, sampled.is_old & sampled.is_high
        ratio, ratio_of_rows = weight[low].mean() / weight[high].mean(), 3 * high.sum() / low.sum()
        if not 1.1 < ratio < 2 * ratio_of_rows:
            yield Violation(
                f"rows with priority 1 have {ratio:.3g} times the weight of rows with priority 20, which are "
                f"sampled about {ratio_of_rows:.3g} times as often"
            )


@_priority_rule(
    "HB805",
    meaning="New transitions are hardly sampled, or have the priorities of evicted transitions.",
    fix="give new transitions one priority, such as the largest so far",
)
def new_priority(sampled: Prioritized) -> Iterator[Violation]:
    new = sampled.counts_of_new
    if len(new) and not list(priorities_ignored(sampled)):
        num_low = (PRIORITIZED_CAPACITY - len(new)) * 3 / 4
        low = (sampled.is_old & ~sampled.is_high).sum() / num_low
        if new.mean() < 0.5 * low:
            found = f"{new.mean():.2g} rows on average, and an old one of priority 1 has {low:.2g}"
            yield Violation(f"a new transition has {found}")
            return
        is_new = ~sampled.is_old
        share = "of the steps whose evicted predecessors had priority 20"
        yield from wrong_share(sampled.is_high[is_new], sampled.rows.batch[is_new], 1 / 4, share)
        if largest_count_z(new) > LIMIT:
            found = f"one has {new.max()} rows and the average is {new.mean():.2g}"
            yield Violation(f"of {len(new)} new transitions, {found}")


@_priority_rule(
    "HB806",
    meaning="Some transitions, such as the newest one, are never sampled by priority.",
    fix="let the sums of priorities include the first and the last stored transition",
)
def never_sampled(sampled: Prioritized) -> Iterator[Violation]:
    for kind, counts in (("new", sampled.counts_of_new), ("priority 20", sampled.counts_of_high)):
        if len(counts) and np.median(counts) >= ENOUGH - 5 and not counts.min():
            yield Violation(
                f"{(counts == 0).sum()} of {len(counts)} transitions ({kind}) have no row, the average is "
                f"{counts.mean():.3g}"
            )


# --- demonstrations -------------------------------------------------------------------------------

SCENARIO = ("kept demonstrations",)


@replay_rule(
    "HB901",
    scenarios=SCENARIO,
    meaning="The share of demonstrations in a batch differs from the given share.",
    fix="take the given share of each batch from the demonstrations, also in batches of one row",
    source="Ball et al. 2023, RLPD, section 4.1, arXiv 2302.02948: a fixed share of each batch",
)
def demonstration_share(result: Result) -> Iterator[Violation]:
    if not list(demonstrations_lost(result)):
        for size, rows in zip(result.facts, result.rows, strict=True):
            chosen = rows.episode < DEMONSTRATIONS
            yield from wrong_share(chosen, rows.batch, SHARE, "demonstrations", f"batches of {size}")


@replay_rule(
    "HB902",
    scenarios=SCENARIO,
    meaning="Demonstrations are lost when other episodes are evicted, or when the buffer is loaded.",
    fix="store demonstrations apart from the other episodes, and save both",
    source="Nair et al. 2018, section IV-A, arXiv 1709.10089: a second replay buffer",
)
def demonstrations_lost(result: Result) -> Iterator[Violation]:
    rows = result.rows[-1]
    count = sum(len(each) for each in rows.episodes[:DEMONSTRATIONS])
    found = len(np.unique(rows.transition[rows.episode < DEMONSTRATIONS]))
    if found < count:
        yield Violation(f"only {found} of {count} demonstrated transitions are in {len(rows)} rows")


@replay_rule(
    "HB903",
    scenarios=SCENARIO,
    meaning="Demonstrations are not relabeled like other transitions.",
    fix="choose goals, rewards and terminations of demonstrations as for other episodes",
)
def demonstrations_relabeled(result: Result) -> Iterator[Violation]:
    for size, rows in zip(result.facts, result.rows, strict=True):
        yield from wrong_relabeled_share(rows, f"batches of {size}", rows.episode < DEMONSTRATIONS)
