"""HB201 to HB205: how many rows are relabeled, and which transitions are sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Violation
from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.results import FIRST
from her_wrappers.conformance.statistics import LIMIT, proportion_z, uniformity_z

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.conformance.results import ScenarioResults
    from her_wrappers.conformance.rows import DecodedRows


def _is_off(rows: DecodedRows, share: float) -> bool:
    return proportion_z(int(rows.relabeled.sum()), len(rows), share) > LIMIT


@replay_rule(
    "HB201",
    "relabeled-share",
    meaning="The share of relabeled rows is not k / (k + 1).",
    fix="relabel each row with probability k / (k + 1)",
    wrong="relabeled = rng.random(B) < 1 - 1 / k",
    right="relabeled = rng.random(B) < k / (k + 1)",
    source=f"{PAPER}, section 4.5: k is the ratio of HER data to data of normal experience replay",
    implies=("HB202", "HB203", "HB508", "HB802"),
)
def relabeled_share(results: ScenarioResults) -> Iterator[Violation]:
    """The share of relabeled rows of large batches is k / (k + 1)."""
    result = results.of(FIRST)
    if result is not None and _is_off(result.rows, results.share):
        yield Violation(f"{result.rows.relabeled.mean():.3f}", f"{results.share:.3f} for n_sampled_goal=4")


@replay_rule(
    "HB202",
    "share-of-small-batches",
    "warning",
    meaning="The share of relabeled rows is not k / (k + 1) in batches of 1, 2 or 7 rows.",
    fix="decide randomly for each row, instead of rounding the number of relabeled rows",
    wrong="relabeled = np.arange(B) < int(B * k / (k + 1))  # no row if B = 1",
    right="relabeled = rng.random(B) < k / (k + 1)",
    source="stable-baselines3 2.9.2, torchrl 0.14.1: a batch of one row is never relabeled",
)
def share_of_small_batches(results: ScenarioResults) -> Iterator[Violation]:
    """The share of relabeled rows does not depend on the size of the batch."""
    result = results.of(FIRST)
    for size, rows in result.small.items() if result else ():
        if _is_off(rows, results.share):
            place = f"batches of {size}"
            yield Violation(f"{rows.relabeled.mean():.3f}", f"{results.share:.3f}", place)


@replay_rule(
    "HB203",
    "share-ignores-k",
    meaning="The share of relabeled rows does not depend on n_sampled_goal.",
    fix="compute the share from n_sampled_goal",
    wrong="self.her_ratio = 0.8",
    right="self.her_ratio = n_sampled_goal / (n_sampled_goal + 1)",
    source=f"{PAPER}, section 4.5",
)
def share_ignores_k(results: ScenarioResults) -> Iterator[Violation]:
    """The share of relabeled rows is one half for n_sampled_goal=1."""
    rows = results.of("one relabeled per original")
    if rows is not None and _is_off(rows, 0.5):
        yield Violation(f"{rows.relabeled.mean():.3f}", "0.500 for n_sampled_goal=1")


@replay_rule(
    "HB204",
    "share-depends-on-step",
    meaning="Some steps of an episode are relabeled more often than others.",
    fix="decide independently of the step whether a row is relabeled",
    wrong="relabeled &= t < T - 1  # the last step has no later state",
    right="relabeled = rng.random(B) < k / (k + 1)  # the last step too, with its next state",
    source="hill-a/stable-baselines issue 578",
    implies=("HB201", "HB202", "HB203", "HB508", "HB802"),
)
def share_depends_on_step(results: ScenarioResults) -> Iterator[Violation]:
    """Every step of an episode is relabeled equally often."""
    result = results.of(FIRST)
    if result is None:
        return
    rows = result.rows
    shares = [rows.relabeled[rows.step == t].mean() for t in range(6) if (rows.step == t).any()]
    counts = [(int(rows.relabeled[rows.step == t].sum()), int((rows.step == t).sum())) for t in range(6)]
    overall = float(np.clip(rows.relabeled.mean(), 0.001, 0.999))
    if max(proportion_z(count, total, overall) for count, total in counts) > LIMIT:
        yield Violation(", ".join(f"{share:.2f}" for share in shares), "the same share for all steps")


@replay_rule(
    "HB205",
    "transitions-not-uniform",
    meaning="Transitions are not sampled uniformly, for example those of short episodes more often.",
    fix="sample transitions, not episodes",
    wrong="episode = rng.choice(episodes); t = rng.integers(len(episode))",
    right="episode, t = transitions[rng.integers(len(transitions))]",
    source="Mnih et al. 2015, DQN: uniform samples of stored transitions",
)
def transitions_not_uniform(results: ScenarioResults) -> Iterator[Violation]:
    """Every stored transition is sampled equally often."""
    rows = results.of("different lengths")
    if rows is None:
        return
    lengths = np.array([episode.length for episode in rows.env.episodes])
    first = np.cumsum(lengths) - lengths
    known = rows.is_added
    place = first[rows.episode[known]] + rows.step[known]
    counts = np.bincount(place, minlength=int(lengths.sum()))
    by_length = np.bincount(rows.length[known], minlength=13)[1:]
    if uniformity_z([counts]) > LIMIT:
        yield Violation(
            f"{by_length.tolist()} rows", "rows in proportion to the length of episodes of 1 to 12 steps"
        )
