"""HB201 to HB205, HB801 to HB803: how many rows are relabeled, and how often transitions are sampled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import N_SAMPLED_GOAL, DecodedRows, Values
from her_wrappers.conformance.scenarios import EqualEpisodes, PrioritizedRows
from her_wrappers.conformance.statistics import LIMIT, proportion_z, uniformity_z
from her_wrappers.rules import Violation

PER = "Schaul et al. 2016, Prioritized Experience Replay, arXiv 1511.05952"


def _wrong_share(relabeled: Values, k: int, place: str = "") -> Iterator[Violation]:
    """Yield a violation if the share of relabeled rows is not k / (k + 1)."""
    share = k / (k + 1)
    if proportion_z(int(relabeled.sum()), len(relabeled), share) > LIMIT:
        found = f"{relabeled.mean():.3f} of {len(relabeled)} rows are relabeled"
        yield Violation(f"{found} instead of {share:.3f} with n_sampled_goal={k}", place)


@replay_rule(
    "HB201",
    meaning="The share of relabeled rows is not k / (k + 1).",
    fix="relabel each row with probability k / (k + 1)",
    wrong="relabeled = rng.random(B) < 1 - 1 / k",
    right="relabeled = rng.random(B) < k / (k + 1)",
    source=f"{PAPER}, section 4.5: k is the ratio of HER data to data of normal experience replay",
    implies=("HB202", "HB203", "HB802"),
)
def relabeled_share(equal: EqualEpisodes) -> Iterator[Violation]:
    yield from _wrong_share(equal.rows.relabeled, N_SAMPLED_GOAL)


@replay_rule(
    "HB202",
    severity="warning",
    meaning="The share of relabeled rows is not k / (k + 1) in batches of 1, 2 or 7 rows.",
    fix="decide randomly for each row, instead of rounding the number of relabeled rows",
    wrong="relabeled = np.arange(B) < int(B * k / (k + 1))  # no row if B = 1",
    right="relabeled = rng.random(B) < k / (k + 1)",
    source="stable-baselines3 2.9.2, torchrl 0.14.1: a batch of one row is never relabeled",
)
def share_of_small_batches(equal: EqualEpisodes) -> Iterator[Violation]:
    for size, rows in equal.small.items():
        yield from _wrong_share(rows.relabeled, N_SAMPLED_GOAL, f"batches of {size}")


@replay_rule(
    "HB203",
    scenario="one relabeled per original",
    meaning="The share of relabeled rows does not depend on n_sampled_goal.",
    fix="compute the share from n_sampled_goal",
    wrong="self.her_ratio = 0.8",
    right="self.her_ratio = n_sampled_goal / (n_sampled_goal + 1)",
    source=f"{PAPER}, section 4.5",
)
def share_ignores_k(rows: DecodedRows) -> Iterator[Violation]:
    yield from _wrong_share(rows.relabeled, 1)


@replay_rule(
    "HB204",
    meaning="Some steps of an episode are relabeled more often than others.",
    fix="decide independently of the step whether a row is relabeled",
    wrong="relabeled &= t < T - 1  # the last step has no later state",
    right="relabeled = rng.random(B) < k / (k + 1)  # the last step too, with its next state",
    source="hill-a/stable-baselines issue 578",
    implies=("HB201", "HB508"),
)
def share_depends_on_step(equal: EqualEpisodes) -> Iterator[Violation]:
    rows = equal.rows
    relabeled = [rows.relabeled[rows.step == t] for t in range(6)]
    overall = float(np.clip(rows.relabeled.mean(), 0.001, 0.999))
    if max(proportion_z(int(each.sum()), len(each), overall) for each in relabeled) > LIMIT:
        found = ", ".join(f"{each.mean():.2f}" for each in relabeled if len(each))
        yield Violation(f"the shares of relabeled rows of the steps of an episode differ: {found}")


@replay_rule(
    "HB205",
    scenario="different lengths",
    meaning="Transitions are not sampled uniformly, for example those of short episodes more often.",
    fix="sample transitions, not episodes",
    wrong="episode = rng.choice(episodes); t = rng.integers(len(episode))",
    right="episode, t = transitions[rng.integers(len(transitions))]",
    source="Mnih et al. 2015, DQN: uniform samples of stored transitions",
)
def transitions_not_uniform(rows: DecodedRows) -> Iterator[Violation]:
    lengths = np.array([episode.length for episode in rows.env.episodes])
    first = np.cumsum(lengths) - lengths
    known = rows.is_added & (rows.length > 1)  # HB508 judges episodes of one step
    counts = np.bincount(first[rows.episode[known]] + rows.step[known], minlength=int(lengths.sum()))
    counts = counts[np.repeat(lengths, lengths) > 1]
    by_length = np.bincount(rows.length[known], minlength=13)[2:]
    if uniformity_z([counts]) > LIMIT:
        yield Violation(
            f"episodes of 2 to 12 steps have {by_length.tolist()} rows, "
            "which is not in proportion to their steps"
        )


@replay_rule(
    "HB801",
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
    scenario="set priorities",
    meaning="Whether a row is relabeled depends on its priority.",
    fix="sample the transition by its priority, then decide randomly whether to relabel it",
    wrong="relabeled = priority[i] > median",
    right="relabeled = rng.random(B) < k / (k + 1)",
    source=PER,
)
def priority_changes_share(rows: PrioritizedRows) -> Iterator[Violation]:
    is_high, relabeled = rows.after.step == 0, rows.after.relabeled
    yield from _wrong_share(relabeled[is_high], N_SAMPLED_GOAL, "high priority")
    yield from _wrong_share(relabeled[~is_high], N_SAMPLED_GOAL, "low priority")


@replay_rule(
    "HB803",
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
    name = np.concatenate([each.transition for each in (rows.before, rows.after)])
    pairs = np.unique(np.stack([index.astype(np.int64), name]), axis=1)
    if len(pairs[0]) != len(np.unique(pairs[0])):
        most = np.unique(pairs[0], return_counts=True)[1].max()
        yield Violation(f"one index belongs to up to {most} transitions")
