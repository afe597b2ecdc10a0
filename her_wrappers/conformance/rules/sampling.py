"""Rules HB201 to HB206: how often transitions are relabeled and sampled. HB801 to HB805: priorities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES
from her_wrappers.conformance.env import AddedEpisode
from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.results import ScenarioResults
from her_wrappers.conformance.rows import N_SAMPLED_GOAL, DecodedRows, Values, first_of_each
from her_wrappers.conformance.scenarios import (
    LONG,
    PRIORITIZED_CAPACITY,
    SCENARIOS,
    Prioritized,
    PrioritizedRows,
)
from her_wrappers.conformance.uniformity import LIMIT, bins_of, dependence_z, proportion_z, uniformity_z
from her_wrappers.rules import Check, Violation

PER = "Schaul et al. 2016, Prioritized Experience Replay, arXiv 1511.05952"

rule_on_all_scenarios = partial(replay_rule, scenario=None, inconclusive_without=tuple(SCENARIOS))


def _wrong_share(relabeled: Values, k: int, place: str = "") -> Iterator[Violation]:
    """Yield a violation if the share of relabeled rows is not k / (k + 1)."""
    share = k / (k + 1)
    if proportion_z(int(relabeled.sum()), len(relabeled), share) > LIMIT:
        found = f"{relabeled.mean():.3f} of {len(relabeled)} rows are relabeled"
        yield Violation(f"{found} instead of {share:.3f} with n_sampled_goal={k}", place)


@rule_on_all_scenarios(
    "HB201",
    meaning="The share of relabeled rows is not k / (k + 1), where k is n_sampled_goal.",
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
    scenario="small batches",
    meaning="In batches of 1 or 2 rows, the share of relabeled rows is not k / (k + 1), k = n_sampled_goal.",
    fix="decide randomly for each row, instead of rounding the number of relabeled rows",
    wrong="relabeled = np.arange(B) < int(B * k / (k + 1))  # no row if B = 1",
    right="relabeled = rng.random(B) < k / (k + 1)",
    source="stable-baselines3 2.9.2, torchrl 0.14.1: a batch of one row is never relabeled",
)
def share_of_small_batches(rows_by_size: dict[int, DecodedRows]) -> Iterator[Violation]:
    for size, rows in rows_by_size.items():
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
    """Return stored episodes of two or more steps, without the oldest one if it may be partly evicted."""
    oldest = int(rows.episode.min())
    first = oldest + (oldest > 0)  # the oldest episode, or its copies, may be partly evicted
    return [each for each in rows.env.episodes[first:] if each.length > 1]


@rule_on_all_scenarios(
    "HB204",
    meaning="Some steps or some kinds of episodes are relabeled more often than others.",
    fix="decide independently of step and episode whether a row is relabeled",
    wrong="relabeled &= t < T - 1  # the last step has no later state",
    right="relabeled = rng.random(B) < k / (k + 1)  # the last step too, with its next state",
    source="hill-a/stable-baselines issue 578",
    implies=("HB201", "HB508"),
)
def share_depends_on_step(results: ScenarioResults) -> Iterator[Violation]:
    for name, rows in results.rows():
        stored = np.array([each.number for each in _stored_episodes(rows)])
        judged = np.isin(rows.episode, stored)
        episodes = [rows.env.episodes[i] for i in rows.episode[judged]]
        age = np.searchsorted(stored, rows.episode[judged]) * 4 // max(len(stored), 1)
        kinds: dict[str, Any] = {
            "step": rows.step[judged],
            "steps to the end": (rows.length - rows.step)[judged],
            "length of the episode": rows.length[judged],
            "end of the episode": np.array([each.end for each in episodes]),
            "env_index": np.array([each.env_index for each in episodes]),
            "complete episode": np.array([each.is_complete for each in episodes]),
            "age of the episode (0 oldest, 3 newest)": age,
        }
        relabeled = rows.relabeled[judged]
        share = float(np.clip(relabeled.mean(), 0.001, 0.999)) if judged.any() else 0.5
        for kind, values in kinds.items():
            for value in np.unique(values):
                of_kind = relabeled[values == value]
                if proportion_z(int(of_kind.sum()), len(of_kind), share) > LIMIT:
                    found = f"{of_kind.mean():.3f} of the rows with {kind} = {value} are relabeled"
                    yield Violation(f"{found}, but {share:.3f} of all rows", f"scenario {name!r}")


@rule_on_all_scenarios(
    "HB205",
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
    strategies=STRATEGIES,
    meaning="Rows of a batch depend on each other in their episodes, their goals, or their relabeling.",
    fix="choose the transition, relabeling and goal of each row independently of the other rows",
    wrong="goal = t + 1 + (rng.random() * (T - t)).astype(int)  # one random number for all rows",
    right="goal = t + 1 + (rng.random(B) * (T - t)).astype(int)",
    source="Mnih et al. 2015, DQN: random samples break the correlations of successive steps",
    implies=("HB105", "HB106", "HB108", "HB201", "HB204", "HB205"),
)
def rows_depend(rows: DecodedRows) -> Iterator[Violation]:
    group = rows.batch * 1024 + rows.episode
    if len(np.unique(rows.length)) == 1:
        sizes, parts = np.bincount(rows.batch), np.unique(group, return_counts=True)[1]
        pairs, expected = ((each * (each - 1) / 2).sum() for each in (parts, sizes))
        expected /= len(rows.env.episodes)
        if pairs > expected + LIMIT * np.sqrt(expected):
            found = f"batches have {pairs:.0f} pairs of rows of the same episode instead of {expected:.0f}"
            yield Violation(found)
    # Long episodes of one length: in others, goals may be distributed otherwise, which is another fault.
    is_long = rows.length == LONG[-1]
    if dependence_z(group[is_long], rows.relabeled[is_long]) > LIMIT:
        yield Violation("in a batch, the rows of an episode are too often all relabeled or all original")
    index = first_of_each(rows, is_long & rows.has_own_goal & (rows.goal_step > rows.step))
    part = bins_of((rows.goal_step - rows.step - 1)[index], (rows.length - rows.step)[index], 4)
    if max(dependence_z(each[index], part) for each in (group, rows.batch)) > LIMIT:
        yield Violation("the goal of a row depends on the goals of other rows in the same batch")


def _priority_rule(code: str, **texts: Any) -> Callable[[Check], Check]:
    """Return a decorator for the rule ``code``; the function judges rows of the scenario "set priorities"."""

    def add(judge: Check) -> Check:
        def check(result: PrioritizedRows) -> Iterator[Violation]:
            for situation, sampled in result.rounds.items():
                yield from (replace(each, place=situation) for each in judge(sampled))

        name = judge.__name__.replace("_", "-")
        return replay_rule(code, name, scenario="set priorities", source=PER, **texts)(check)

    return add


@_priority_rule(
    "HB801",
    reports_exceptions=True,
    meaning="Transitions with a high priority are not sampled more often.",
    fix="sample transitions in proportion to their priorities, also after loading and evicting episodes",
    wrong="i = rng.integers(len(self), size=B)",
    right="i = rng.choice(len(self), size=B, p=priorities / priorities.sum())",
    implies=("HB804", "HB805"),
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
    wrong="relabeled = priority[i] > median",
    right="relabeled = rng.random(B) < k / (k + 1)",
)
def priority_changes_share(sampled: Prioritized) -> Iterator[Violation]:
    for part in (sampled.is_high, ~sampled.is_high):
        yield from _wrong_share(sampled.rows.relabeled[part], N_SAMPLED_GOAL)


@_priority_rule(
    "HB803",
    meaning="index does not identify a transition, so priorities are set for other transitions.",
    fix="return the index that update_priorities expects",
    wrong='return {"index": np.arange(B), ...}',
    right='return {"index": indices, ...}',
    implies=("HB801", "HB802", "HB804", "HB805"),
)
def index_ambiguous(sampled: Prioritized) -> Iterator[Violation]:
    index = sampled.rows.columns["index"].astype(np.int64)
    pairs = np.unique(np.stack([index, sampled.rows.transition]), axis=1)
    most = np.unique(pairs[0], return_counts=True)[1].max()
    if most > 1:
        yield Violation(f"rows of {most} different transitions have the same index")


@_priority_rule(
    "HB804",
    meaning="The importance weights do not correct for how often rows are sampled.",
    fix="return weights proportional to (sampling probability)^-beta, or no weights",
    wrong="weight = p[i] ** beta",
    right="weight = (p[i] / p.min()) ** -beta",
)
def importance_weights(sampled: Prioritized) -> Iterator[Violation]:
    weight = sampled.rows.columns.get("weight", np.empty(0)).astype(float)
    if not (np.isfinite(weight) & (weight > 0)).all():
        yield Violation("a weight is not a positive number")
    elif len(weight):
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
    wrong="self.transitions[pos] = transition  # the priority of the old transition stays",
    right="self.transitions[pos] = transition; self.priorities[pos] = self.largest_priority",
)
def new_priority(sampled: Prioritized) -> Iterator[Violation]:
    new = sampled.counts_of_new
    if len(new):
        num_low = (PRIORITIZED_CAPACITY - len(new)) * 3 / 4
        low = (sampled.is_old & ~sampled.is_high).sum() / num_low
        if new.mean() < 0.5 * low:
            found = f"{new.mean():.2g} rows on average, and an old one of priority 1 has {low:.2g}"
            yield Violation(f"a new transition has {found}")
        elif uniformity_z([new]) > LIMIT:
            found = f"one has {new.max()} rows and another {new.min()}"
            yield Violation(f"of {len(new)} new transitions, {found}")
