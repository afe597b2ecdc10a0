"""Rules HB901 to HB903: demonstrations are a fixed share of each batch, are relabeled, and are not lost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from her_wrappers.conformance.registry import replay_rule
from her_wrappers.conformance.rows import N_SAMPLED_GOAL, DecodedRows
from her_wrappers.conformance.scenarios import DEMONSTRATIONS, SHARE
from her_wrappers.conformance.uniformity import LIMIT, proportion_z
from her_wrappers.rules import Violation

rule = partial(replay_rule, scenario="kept demonstrations")


@rule(
    "HB901",
    meaning="The share of demonstrations in a batch differs from the given share.",
    fix="take the given share of each batch from the demonstrations, also in batches of one row",
    wrong="num_demonstrations = int(share * B)  # no row if B = 1",
    right="num_demonstrations = int(share * B + rng.random())",
    source="Ball et al. 2023, RLPD, section 4.1, arXiv 2302.02948: a fixed share of each batch",
)
def demonstration_share(rows_by_size: dict[int, DecodedRows]) -> Iterator[Violation]:
    for size, rows in rows_by_size.items():
        chosen = rows.episode < DEMONSTRATIONS
        if proportion_z(int(chosen.sum()), len(rows), SHARE) > LIMIT:
            found = f"{chosen.mean():.3f} of {len(rows)} rows are demonstrations instead of {SHARE}"
            yield Violation(found, f"batches of {size}")


@rule(
    "HB902",
    meaning="Demonstrations are lost when other episodes are evicted, or when the buffer is loaded.",
    fix="store demonstrations apart from the other episodes, and save both",
    wrong="for episode in demonstrations: self.add_episode(episode)",
    right="self.demonstrations = make_buffer(demonstrations)  # of its own",
    source="Nair et al. 2018, section IV-A, arXiv 1709.10089: a second replay buffer",
    implies=("HB901",),
)
def demonstrations_lost(rows_by_size: dict[int, DecodedRows]) -> Iterator[Violation]:
    rows = rows_by_size[max(rows_by_size)]
    lengths = np.array([each.length for each in rows.env.episodes[:DEMONSTRATIONS]])
    found = len(np.unique(rows.transition[rows.episode < DEMONSTRATIONS]))
    if found < lengths.sum():
        yield Violation(f"only {found} of {lengths.sum()} demonstrated transitions are in {len(rows)} rows")


@rule(
    "HB903",
    meaning="Demonstrations are not relabeled like other transitions, or their rows are wrong.",
    fix="choose goals, rewards and terminations of demonstrations as for other episodes",
    wrong="relabeled = ~is_demonstration & (rng.random(B) < k / (k + 1))",
    right="relabeled = rng.random(B) < k / (k + 1)",
    reports_exceptions=True,
)
def demonstrations_relabeled(rows_by_size: dict[int, DecodedRows]) -> Iterator[Violation]:
    share = N_SAMPLED_GOAL / (N_SAMPLED_GOAL + 1)
    for size, rows in rows_by_size.items():
        relabeled = rows.relabeled[rows.episode < DEMONSTRATIONS]
        if proportion_z(int(relabeled.sum()), len(relabeled), share) > LIMIT:
            found = f"{relabeled.mean():.3f} of the demonstrations are relabeled instead of {share:.3f}"
            yield Violation(found, f"batches of {size}")
        yield from rows.first_violation()
