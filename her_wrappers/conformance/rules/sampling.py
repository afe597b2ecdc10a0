"""Rules HB201 to HB206: how often transitions are relabeled and sampled. HB390: calls of compute_reward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES
from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.results import ScenarioResults
from her_wrappers.conformance.rows import Rows, Values
from her_wrappers.conformance.scenarios import LONG, LONG_EPISODES, SCENARIOS, USED, Result
from her_wrappers.conformance.uniformity import (
    LIMIT,
    bins_of,
    dependence_z,
    first_of_each,
    largest_count_z,
    proportion_z,
    share_z,
)
from her_wrappers.rules import Violation

SMALL, ONE = "small batches", "one relabeled per original"
UNIFORM = tuple(name for name, each in SCENARIOS.items() if each.number < 60)
"""Scenarios whose rows are uniform over the stored transitions."""


def wrong_share(
    chosen: Values, batch: Values, share: float, text: str, place: str = ""
) -> Iterator[Violation]:
    """Yield a violation if the share of the rows in the mask ``chosen`` is not ``share``."""
    if len(chosen) and share_z(chosen, batch, share) > LIMIT:
        yield Violation(f"{chosen.mean():.3f} of {len(chosen)} rows are {text} instead of {share:.3f}", place)


def wrong_relabeled_share(rows: Rows, place: str = "", among: Values | None = None) -> Iterator[Violation]:
    """Yield a violation if the share of relabeled rows in the mask ``among`` is not k / (k + 1)."""
    judged = rows.is_known if among is None else rows.is_known & among
    text = f"relabeled with n_sampled_goal={rows.k}"
    yield from wrong_share(rows.relabeled[judged], rows.batch[judged], rows.k / (rows.k + 1), text, place)


def _results(results: ScenarioResults, names: tuple[str, ...] = UNIFORM) -> Iterator[tuple[str, Rows]]:
    """Yield the rows of scenarios, except those with steps that are missing or should not be there."""
    for name in names:
        result = results.of(name)
        if result is not None and not {("stored", name), ("transition", name)} & results.faults.keys():
            yield from ((f"scenario {name!r}", rows) for rows in result.rows)


def _uneven_shares(rows: Rows, place: str = "") -> Iterator[Violation]:
    """Yield a violation for each kind of steps that is relabeled more or less often than all rows.

    Rows of one episode in a batch count as one observation, since they may be relabeled together (HB206).
    """
    known = rows.is_known
    relabeled, episodes = rows.relabeled[known], (rows.batch * 2**16 + rows.episode)[known]
    share = float(np.clip(relabeled.mean(), 0.001, 0.999)) if len(relabeled) else 0.5
    for kind, values in rows.features(rows.episode[known], rows.step[known]).items():
        different, group = np.unique(values, return_inverse=True)
        deviation = proportion_z(np.bincount(group, relabeled), np.bincount(group), share)
        for i in np.flatnonzero(deviation > LIMIT):
            chosen = group == i
            rest = np.bincount(
                np.unique(episodes[chosen], return_inverse=True)[1], (relabeled - share)[chosen]
            )
            if abs(rest.sum()) > LIMIT * np.sqrt((rest**2).sum()):
                found = f"{relabeled[chosen].mean():.3f} of the rows with {kind} = {different[i]} are"
                yield Violation(f"{found} relabeled, but {share:.3f} of all rows", place)


def _share_is_wrong(results: ScenarioResults) -> bool:
    """Return whether the relabeled share is wrong in large batches, which explains other wrong shares."""
    return next(relabeled_share(results), None) is not None


@replay_rule(
    "HB201",
    scenarios=UNIFORM,
    on_results=True,
    meaning="The share of relabeled rows is not k / (k + 1), where k is n_sampled_goal.",
    fix="relabel each row with probability k / (k + 1)",
    source=f"{PAPER}, section 4.5: k is the ratio of HER data to data of normal experience replay",
)
def relabeled_share(results: ScenarioResults) -> Iterator[Violation]:
    for place, rows in _results(results):
        if len(rows) > 2 * (rows.batch[-1] + 1) and rows.k > 1 and not list(_uneven_shares(rows)):
            yield from wrong_relabeled_share(rows, place)


@replay_rule(
    "HB202",
    severity="warning",
    scenarios=(SMALL,),
    on_results=True,
    meaning="In batches of 1 or 2 rows, the share of relabeled rows is not k / (k + 1), k = n_sampled_goal.",
    fix="decide randomly for each row, instead of rounding the number of relabeled rows",
    source="stable-baselines3 2.9.2, torchrl 0.14.1: a batch of one row is never relabeled",
)
def share_of_small_batches(results: ScenarioResults) -> Iterator[Violation]:
    result = results.of(SMALL)
    if result and not _share_is_wrong(results):
        for size, rows in enumerate(result.rows, 1):
            yield from wrong_relabeled_share(rows, f"batches of {size}")


@replay_rule(
    "HB203",
    scenarios=(ONE,),
    on_results=True,
    meaning="The share of relabeled rows does not depend on n_sampled_goal.",
    fix="compute the share from n_sampled_goal",
    source=f"{PAPER}, section 4.5",
)
def share_ignores_k(results: ScenarioResults) -> Iterator[Violation]:
    result = results.of(ONE)
    if result and not _share_is_wrong(results):
        yield from wrong_relabeled_share(result.rows[0])


@replay_rule(
    "HB204",
    scenarios=UNIFORM,
    on_results=True,
    meaning="Some steps or some kinds of episodes are relabeled more often than others.",
    fix="decide independently of step and episode whether a row is relabeled",
    source="hill-a/stable-baselines issue 578",
)
def share_depends_on_step(results: ScenarioResults) -> Iterator[Violation]:
    for place, rows in _results(results):
        yield from _uneven_shares(rows, place)


@replay_rule(
    "HB205",
    scenarios=UNIFORM,
    on_results=True,
    meaning="Transitions are not sampled uniformly, for example those of short episodes more often.",
    fix="sample transitions, not episodes",
    source="Mnih et al. 2015, DQN: uniform samples of stored transitions",
)
def transitions_not_uniform(results: ScenarioResults) -> Iterator[Violation]:
    for place, rows in _results(results):
        numbers, steps = rows.judged_steps()
        names = numbers * 1024 + steps
        known = np.isin(rows.transition, names)
        if not known.any():
            continue
        counts = np.unique(np.concatenate([rows.transition[known], names]), return_counts=True)[1] - 1
        if largest_count_z(counts) > LIMIT:
            found = (
                f"of {len(names)} transitions, one has {counts.max()} rows, the mean is {counts.mean():.3g}"
            )
            yield Violation(found, place)
        of_rows = rows.features(rows.episode[known], rows.step[known])
        for kind, values in rows.features(numbers, steps).items():
            different, stored = np.unique(values, return_counts=True)
            group: Values = np.searchsorted(different, of_rows[kind])
            shares = stored / len(steps)
            counts = np.bincount(group, minlength=len(different))
            for i in np.flatnonzero(proportion_z(counts, len(group), shares) > LIMIT):
                text = f"of steps with {kind} = {different[i]}"
                yield from wrong_share(group == i, rows.batch[known], float(shares[i]), text, place)


@replay_rule(
    "HB206",
    severity="warning",
    scenarios=tuple(
        f"strategy {name}{variant}" for name in STRATEGIES for variant in ("", LONG_EPISODES, USED)
    ),
    meaning="Rows of a batch depend on each other in their episodes, their goals, or their relabeling.",
    fix="choose the transition, relabeling and goal of each row independently of the other rows",
    source="Mnih et al. 2015, DQN: random samples break the correlations of successive steps",
)
def rows_depend(result: Result) -> Iterator[Violation]:
    (rows,) = result.rows
    group = rows.batch * 1024 + rows.episode
    if len(np.unique(rows.length)) == 1:
        sizes, parts = np.bincount(rows.batch), np.unique(group, return_counts=True)[1]
        pairs, expected = ((each * (each - 1) / 2).sum() for each in (parts, sizes))
        expected /= len(rows.episodes)
        if pairs > expected + LIMIT * np.sqrt(expected):
            found = f"batches have {pairs:.0f} pairs of rows of the same episode instead of {expected:.0f}"
            yield Violation(found)
    # Long episodes of one length: in others, goals may be distributed otherwise, which is another fault.
    is_long = rows.length == LONG[-1]
    if dependence_z(group[is_long], rows.relabeled[is_long]) > LIMIT:
        yield Violation("in a batch, the rows of an episode are too often all relabeled or all original")
    index = first_of_each(rows.transition, is_long & rows.has_own_goal & (rows.goal_step > rows.step))
    part = bins_of((rows.goal_step - rows.step - 1)[index], (rows.length - rows.step)[index], 4)
    if max(dependence_z(each[index], part) for each in (group, rows.batch)) > LIMIT:
        yield Violation("the goal of a row depends on the goals of other rows in the same batch")


@replay_rule(
    "HB390",
    severity="info",
    meaning="compute_reward is called for single rows or a few rows, which is correct but slow.",
    fix="call compute_reward once for all relabeled rows",
    source="Gymnasium-Robotics: compute_reward takes batches of goals",
)
def reward_row_by_row(result: Result) -> Iterator[Violation]:
    (rows,) = result.rows
    if rows.env.reward_calls > len(rows) / 4:
        yield Violation(f"compute_reward was called {rows.env.reward_calls} times for {len(rows)} rows")
