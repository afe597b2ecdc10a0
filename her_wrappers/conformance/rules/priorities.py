"""Rules HB801 to HB805: how often transitions are sampled by priority."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.conformance.registry import replay_rule
from her_wrappers.conformance.scenarios import Result, Round
from her_wrappers.rules import Violation

SOURCE = "Schaul et al. 2016, Prioritized Experience Replay, arXiv 1511.05952"
SCENARIO = ("set priorities",)


def _counts(part: Round) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the (S,) numbers of rows of each step, and (S,) masks of the stored steps of each kind."""
    features, must = part.rows.features, part.rows.must_be_sampled
    is_old, is_high = features["episode"] < part.num_old, features["step"] == part.marked
    counts = np.bincount(part.rows.here[part.rows.here >= 0], minlength=len(must))
    kinds = {"new": must & ~is_old, "priority 20": must & is_old & is_high}
    return counts, kinds | {"priority 1": must & is_old & ~is_high}


@replay_rule(
    "HB803",
    SCENARIO,
    fix="return the index that update_priorities expects",
    source=SOURCE,
    implies=("HB204", "HB801", "HB804", "HB805"),
)
def index_ambiguous(result: Result) -> Iterator[Violation]:
    """The index does not identify a transition, so priorities are set for other transitions."""
    for part in result.facts:
        pairs = {*zip(part.rows.columns["index"].tolist(), part.rows.here.tolist(), strict=True)}
        most = np.unique([index for index, _ in pairs], return_counts=True)[1].max()
        if most > 1:
            yield Violation(f"rows of {most} different transitions have the same index", part.situation)


@replay_rule(
    "HB801",
    SCENARIO,
    fix="sample transitions in proportion to their priorities, also after loading and evicting episodes",
    source=SOURCE,
    implies=("HB804", "HB805"),
)
def priorities_ignored(result: Result) -> Iterator[Violation]:
    """Transitions with a high priority are not sampled more often."""
    for part in result.facts:
        counts, kinds = _counts(part)
        is_early = part.rows.features["episode"] < len(part.rows.episodes) / 2
        for half in (is_early, ~is_early):
            high, low = (counts[kinds[kind] & half].sum() for kind in ("priority 20", "priority 1"))
            if high < 0.35 * (high + low):
                share = f"only {high / (high + low):.0%} of the rows have priority 20"
                text = f"one transition in 4 has priority 20, the others have priority 1, but {share}"
                yield Violation(text, part.situation)


@replay_rule(
    "HB804",
    SCENARIO,
    fix="return weights proportional to (sampling probability)^-beta, or no weights",
    source=SOURCE,
)
def importance_weights(result: Result) -> Iterator[Violation]:
    """The importance weights do not correct for how often rows are sampled."""
    for part in result.facts:
        weight = part.rows.columns.get("weight", np.empty(0)).astype(float)
        if not (np.isfinite(weight) & (weight > 0)).all():
            yield Violation("a weight is not a positive number", part.situation)
        elif len(weight):
            counts, kinds = _counts(part)
            low, high = kinds["priority 1"], kinds["priority 20"]
            ratio = weight[low[part.rows.here]].mean() / weight[high[part.rows.here]].mean()
            of_rows = counts[high].mean() / counts[low].mean()
            if not 1.1 < ratio < 2 * of_rows:
                text = f"rows with priority 1 have {ratio:.3g} times the weight of rows with priority 20"
                yield Violation(f"{text}, which are sampled {of_rows:.3g} times as often", part.situation)


@replay_rule(
    "HB805", SCENARIO, fix="give new transitions one priority, and sample all of them", source=SOURCE
)
def priority_not_uniform(result: Result) -> Iterator[Violation]:
    """New transitions are hardly sampled, or transitions with one priority are not sampled equally often."""
    for part in result.facts:
        (counts, kinds), here = _counts(part), part.rows.here
        new, low = kinds["new"], counts[kinds["priority 1"]].mean()
        if new.any() and counts[new].mean() < 0.5 * low:
            found = f"a new transition has {counts[new].mean():.2g} rows on average"
            yield Violation(f"{found}, and an old one of priority 1 has {low:.2g}", part.situation)
            continue
        for kind in ("new", "priority 20"):
            chosen = kinds[kind][here]
            for text in part.rows.uneven(here[chosen], kinds[kind], part.rows.batch[chosen]):
                yield Violation(f"among transitions that are {kind}, {text}", part.situation)
