"""HB201 to HB206, HB801 to HB805: how many rows are relabeled, and how often transitions are sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from her_wrappers.conformance.env import AddedEpisode
from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.results import ScenarioResults
from her_wrappers.conformance.rows import N_SAMPLED_GOAL, DecodedRows, Values, first_of_each
from her_wrappers.conformance.scenarios import (
    ENDS,
    EQUAL_EPISODES,
    LONG,
    LONG_EPISODES,
    PRIORITIZED_CAPACITY,
    SCENARIOS,
    EqualEpisodes,
    Prioritized,
    PrioritizedRows,
)
from her_wrappers.conformance.statistics import LIMIT, bins_of, dependence_z, proportion_z, uniformity_z
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
    scenario=None,
    inconclusive_without=tuple(SCENARIOS),
    meaning="The share of relabeled rows is not k / (k + 1).",
    fix="relabel each row with probability k / (k + 1)",
    wrong="relabeled = rng.random(B) < 1 - 1 / k",
    right="relabeled = rng.random(B) < k / (k + 1)",
    source=f"{PAPER}, section 4.5: k is the ratio of HER data to data of normal experience replay",
    implies=("HB202", "HB203", "HB802"),
)
def relabeled_share(results: ScenarioResults) -> Iterator[Violation]:
    for name, rows in results.rows():
        if rows.k == N_SAMPLED_GOAL:
            yield from _wrong_share(rows.relabeled, rows.k, f"scenario {name!r}")


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


def _stored_episodes(rows: DecodedRows) -> list[AddedEpisode]:
    """Return the stored episodes, except those of one step, and the oldest one if others were evicted."""
    oldest = int(rows.episode.min())
    first = oldest + (oldest > 0)  # the oldest episode, or its copies, may be partly evicted
    return [each for each in rows.env.episodes[first:] if each.length > 1]


def _is_judged(rows: DecodedRows) -> Values:
    """Return which rows are of `_stored_episodes`, (B,) bool."""
    return np.isin(rows.episode, [each.number for each in _stored_episodes(rows)])


@replay_rule(
    "HB204",
    scenario=None,
    inconclusive_without=tuple(SCENARIOS),
    meaning="Some steps or some kinds of episodes are relabeled more often than others.",
    fix="decide independently of step and episode whether a row is relabeled",
    wrong="relabeled &= t < T - 1  # the last step has no later state",
    right="relabeled = rng.random(B) < k / (k + 1)  # the last step too, with its next state",
    source="hill-a/stable-baselines issue 578",
    implies=("HB201", "HB508"),
)
def share_depends_on_step(results: ScenarioResults) -> Iterator[Violation]:
    for name, rows in results.rows():
        episodes, judged = _stored_episodes(rows), _is_judged(rows)
        ends = np.array([ENDS.index(each.end) for each in rows.env.episodes])
        envs = np.array([each.env_index for each in rows.env.episodes])
        kinds = {
            "step": rows.step,
            "steps to the end": rows.length - rows.step,
            "length": rows.length,
            "end": ends[rows.episode.clip(0, len(ends) - 1)],
            "env_index": envs[rows.episode.clip(0, len(ends) - 1)],
            "is_complete": rows.is_complete,
            "age": np.searchsorted([each.number for each in episodes], rows.episode)
            * 4
            // (len(episodes) + 1),
        }
        share = float(np.clip(rows.relabeled[judged].mean(), 0.001, 0.999)) if judged.any() else 0.5
        for kind, values in kinds.items():
            for value in np.unique(values[judged]):
                relabeled = rows.relabeled[judged & (values == value)]
                if proportion_z(int(relabeled.sum()), len(relabeled), share) > LIMIT:
                    label = ENDS[value] if kind == "end" else value
                    found = f"{relabeled.mean():.3f} of the rows with {kind} {label} are relabeled"
                    yield Violation(f"{found}, but {share:.3f} of all rows", f"scenario {name!r}")


@replay_rule(
    "HB205",
    scenario=None,
    inconclusive_without=tuple(SCENARIOS),
    meaning="Transitions are not sampled uniformly, for example those of short episodes more often.",
    fix="sample transitions, not episodes",
    wrong="episode = rng.choice(episodes); t = rng.integers(len(episode))",
    right="episode, t = transitions[rng.integers(len(transitions))]",
    source="Mnih et al. 2015, DQN: uniform samples of stored transitions",
)
def transitions_not_uniform(results: ScenarioResults) -> Iterator[Violation]:
    for name, rows in results.rows():
        steps = [e.number * 1024 + np.arange(e.length) for e in _stored_episodes(rows) if e.is_complete]
        if steps and name != "saved and loaded":  # in which transitions are added between two batches
            names = np.concatenate(steps)
            known = rows.transition[np.isin(rows.transition, names)]
            counts = np.bincount(np.searchsorted(names, known), minlength=len(names))
            if uniformity_z([counts]) > LIMIT:
                found = f"of {len(names)} transitions, one has {counts.max()} rows and another {counts.min()}"
                yield Violation(found, f"scenario {name!r}")


@replay_rule(
    "HB206",
    severity="warning",
    scenario=None,
    inconclusive_without=tuple(SCENARIOS),
    meaning="Rows of a batch depend on each other: their episodes, goals, or choices to relabel.",
    fix="sample transition, relabeling and goal of each row independently",
    wrong="goal = t + 1 + (rng.random() * (T - t)).astype(int)  # one random number for all rows",
    right="goal = t + 1 + (rng.random(B) * (T - t)).astype(int)",
    source="Mnih et al. 2015, DQN: random samples break the correlations of successive steps",
    implies=("HB105", "HB106", "HB108", "HB201", "HB204", "HB205"),
)
def rows_depend(results: ScenarioResults) -> Iterator[Violation]:
    equal = results.of(EQUAL_EPISODES)
    if equal is not None:
        rows = equal.rows
        counts = np.unique(rows.batch * 1024 + rows.episode, return_counts=True)[1]
        sizes = np.bincount(rows.batch)
        pairs, expected = (each * (each - 1) / 2 for each in (counts, sizes))
        pairs, expected = pairs.sum(), expected.sum() / len(rows.env.episodes)
        if pairs > expected + LIMIT * np.sqrt(expected):
            yield Violation(
                f"batches have {pairs:.0f} pairs of rows of one episode instead of {expected:.0f}"
            )
    for strategy in ("future", "episode"):
        rows = results.of(f"strategy {strategy}{LONG_EPISODES}")
        if rows is None:
            continue
        first = rows.step if strategy == "future" else np.zeros(len(rows), int)
        # Episodes of one length: in others, goals may be distributed otherwise, which is another fault.
        equal_length = rows.length == LONG[-1]
        index = first_of_each(rows, rows.has_own_goal & (rows.goal_step > first) & equal_length)
        part = bins_of((rows.goal_step - first - 1)[index], (rows.length - first)[index], 4)
        group = rows.batch * len(LONG) + rows.episode
        for text, table in (
            (
                "relabeled together",
                np.stack([
                    np.bincount(group, each & equal_length) for each in (rows.relabeled, ~rows.relabeled)
                ]),
            ),
            ("given related goals", np.bincount(part * 1000 + group[index], minlength=4000).reshape(4, -1)),
        ):
            if dependence_z(table.T) > LIMIT:
                yield Violation(f"the rows of one episode in a batch are {text}", subject=strategy)


def _priority_rule(
    code: str, name: str, judge: Callable[[Prioritized], Iterator[Violation]], **texts: Any
) -> None:
    """Add a rule that judges the rows of each situation after priorities were set."""

    def check(result: PrioritizedRows) -> Iterator[Violation]:
        for situation, rows in result.rounds.items():
            yield from (replace(each, place=situation) for each in judge(rows))

    replay_rule(code, name, scenario="set priorities", source=PER, **texts)(check)


def _ignored(sampled: Prioritized) -> Iterator[Violation]:
    rows = sampled.rows
    for part in (rows.episode < 40, rows.episode >= 40):
        share = (rows.step == sampled.marked)[part & ~sampled.is_new].sum() / max(
            (part & ~sampled.is_new).sum(), 1
        )
        if sampled.marked >= 0 and (part & ~sampled.is_new).any() and share < 0.35:
            yield Violation(
                f"one step of 4 has a priority of 20 instead of 1, but only {share:.0%} of the rows"
            )


def _changes_share(sampled: Prioritized) -> Iterator[Violation]:
    is_high = sampled.rows.step == sampled.marked
    for relabeled in (sampled.rows.relabeled[is_high], sampled.rows.relabeled[~is_high]):
        yield from _wrong_share(relabeled, N_SAMPLED_GOAL)


def _wrong_weights(sampled: Prioritized) -> Iterator[Violation]:
    if "weight" not in sampled.rows.columns:
        return
    weight, batch = sampled.rows.columns["weight"].astype(float), sampled.rows.batch
    if not (np.isfinite(weight) & (weight > 0)).all():
        yield Violation("a weight is not a positive number")
        return
    level = np.where(sampled.is_new, 0.0, sampled.priority)
    is_high = (sampled.rows.step == sampled.marked)[~sampled.is_new | (sampled.marked < 0)]
    ratio_of_rows = 3 * is_high.mean() / (1 - is_high.mean())
    for each in np.unique(batch):
        groups = {p: weight[(batch == each) & (level == p)] for p in (0.0, 1.0, 20.0)}
        for group in groups.values():
            if len(group) and group.max() > group.min() * 1.001:
                yield Violation("rows of equal priority in a batch have different weights")
                return
        if len(groups[1.0]) and len(groups[20.0]):
            ratio = groups[1.0][0] / groups[20.0][0]
            if not 1.001 < ratio < 2 * ratio_of_rows:
                yield Violation(
                    f"the weight of rows with priority 1 is {ratio:.3g} times that of rows with priority 20; "
                    f"the ratio of their sampling probabilities is about {ratio_of_rows:.3g}"
                )
                return


def _new_priority(sampled: Prioritized) -> Iterator[Violation]:
    if len(sampled.new):
        is_low = ~sampled.is_new & (sampled.rows.step != sampled.marked)
        low = is_low.sum() / ((PRIORITIZED_CAPACITY - len(sampled.new)) * 3 / 4)
        if sampled.new.mean() < 0.5 * low:
            yield Violation(
                f"new transitions have {sampled.new.mean():.2g} rows each, those of priority 1 have {low:.2g}"
            )
        elif uniformity_z([sampled.new]) > LIMIT:
            found = f"one has {sampled.new.max()} rows and another {sampled.new.min()}"
            yield Violation(f"of {len(sampled.new)} new transitions, {found}")


_priority_rule(
    "HB801",
    "priorities-ignored",
    _ignored,
    reports_exceptions=True,
    meaning="Transitions with a high priority are not sampled more often.",
    fix="sample transitions in proportion to their priorities, also after loading and evicting episodes",
    wrong="i = rng.integers(len(self), size=B)",
    right="i = rng.choice(len(self), size=B, p=priorities / priorities.sum())",
    implies=("HB804", "HB805"),
)
_priority_rule(
    "HB802",
    "priority-changes-share",
    _changes_share,
    meaning="Whether a row is relabeled depends on its priority.",
    fix="sample the transition by its priority, then decide randomly whether to relabel it",
    wrong="relabeled = priority[i] > median",
    right="relabeled = rng.random(B) < k / (k + 1)",
)


@replay_rule(
    "HB803",
    scenario="set priorities",
    meaning="index does not identify a transition, so priorities are set for other transitions.",
    fix="return the index that update_priorities expects",
    wrong='return {"index": np.arange(B), ...}',
    right='return {"index": indices, ...}',
    source=PER,
    implies=("HB801", "HB802", "HB804", "HB805"),
)
def index_ambiguous(result: PrioritizedRows) -> Iterator[Violation]:
    names = list(result.rounds)
    for part in filter(None, (names[:2], names[2:-2], names[-2:])):  # loading may change the indices
        rows = [result.rounds[name].rows for name in part]
        index = np.concatenate([each.columns["index"] for each in rows])
        name = np.concatenate([each.transition for each in rows])
        pairs = np.unique(np.stack([index.astype(np.int64), name]), axis=1)
        if len(pairs[0]) != len(np.unique(pairs[0])):
            most = np.unique(pairs[0], return_counts=True)[1].max()
            yield Violation(f"one index belongs to up to {most} transitions", part[-1])


_priority_rule(
    "HB804",
    "importance-weights",
    _wrong_weights,
    meaning="weight does not correct for the priorities of the rows.",
    fix="return weights proportional to (sampling probability)^-beta, or no weights",
    wrong="weight = p[i] ** beta",
    right="weight = (p[i] / p.min()) ** -beta",
)
_priority_rule(
    "HB805",
    "new-priority",
    _new_priority,
    meaning="New transitions are hardly sampled, or have the priorities of evicted ones.",
    fix="give new transitions one priority, such as the largest so far",
    wrong="self.transitions[pos] = transition  # the priority of the old transition stays",
    right="self.transitions[pos] = transition; self.priorities[pos] = self.largest_priority",
)
