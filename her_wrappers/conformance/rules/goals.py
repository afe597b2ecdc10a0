"""Rules HB190 to HB195: how often each state is the goal of a relabeled row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from her_wrappers.conformance.driver import HORIZON
from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import Rows, Values
from her_wrappers.conformance.scenarios import LONG_EPISODES, USED, Result
from her_wrappers.conformance.uniformity import (
    LIMIT,
    bins_of,
    counts_of,
    first_of_each,
    proportion_z,
    uniformity_z,
)
from her_wrappers.rules import Violation


def _scenarios(strategy: str) -> tuple[str, ...]:
    return tuple(f"strategy {strategy}{variant}" for variant in ("", LONG_EPISODES, USED))


def _judged(result: Result) -> list[Rows]:
    """Return the rows in which all goals are allowed, since wrong goals have rules of their own."""
    return [rows for rows in result.rows if not rows.has_wrong("transition", "goal")]


def _last_state_never_a_goal(rows: Rows, first: Values) -> Iterator[Violation]:
    """Yield a violation if goals are never the last state, although other states are."""
    early = rows.has_own_goal & (rows.length - first > 1)
    expected = (1 / (rows.length - first)[early]).sum()
    if expected > 20 and not (early & (rows.goal_step == rows.length)).any():
        yield Violation(f"the last state was never chosen as a goal: 0 of {int(early.sum())} rows")


def _not_uniform(rows: Rows, first: Values) -> Iterator[Violation]:
    """Yield a violation unless goals are uniform over all states of the episode after state ``first``."""
    never = list(_last_state_never_a_goal(rows, first))
    if never:
        yield from never
        return
    count = rows.length - first
    chosen = rows.has_own_goal & (rows.goal_step > first)  # state 0 is optional
    index = first_of_each(rows.transition, chosen)
    count, position = count[index], (rows.goal_step - first - 1)[index]
    # Up to HORIZON states one by one; in longer episodes, HORIZON parts of the states.
    groups = []
    for lower, upper in pairwise([*range(1, HORIZON + 1), *(HORIZON * 2**power for power in range(1, 7))]):
        chosen, bins = (count > lower) & (count <= upper), min(upper, HORIZON)
        groups.append(counts_of(bins_of(position[chosen], count[chosen], bins), 0, bins))
    if uniformity_z(groups) > LIMIT:
        found = max(groups, key=lambda each: uniformity_z([each]))
        states = "state" if len(found) < HORIZON else f"of {len(found)} equal parts"
        message = "states that can be goals are not chosen equally often; counts from the first to the last"
        yield Violation(f"{message} {states}: {found.tolist()}")


@replay_rule(
    "HB190",
    scenarios=_scenarios("future"),
    meaning="Goals of the strategy future are not uniform over the states after the step.",
    fix="for step t of an episode of T steps, sample the integer s from t + 1 to T, both included",
    source=f"{PAPER}, section 4.5: 'k random states'; hill-a/stable-baselines issue 666",
)
def future_not_uniform(result: Result) -> Iterator[Violation]:
    for rows in _judged(result):
        yield from _not_uniform(rows, rows.step)


@replay_rule(
    "HB192",
    scenarios=_scenarios("episode"),
    meaning="Goals of the strategy episode are not uniform over the states of the episode.",
    fix="for each step of an episode of T steps, sample the goal's state s from 1 to T, both included",
    source=f"{PAPER}, section 4.5: 'k random states coming from the same episode'",
)
def episode_not_uniform(result: Result) -> Iterator[Violation]:
    for rows in _judged(result):
        yield from _not_uniform(rows, np.zeros(len(rows), int))


@replay_rule(
    "HB193",
    severity="warning",
    scenarios=_scenarios("random"),
    meaning="Goals of the strategy random are not uniform over the stored episodes and their states.",
    fix="sample any stored transition, and use its achieved goal",
    source=f"{PAPER}, section 4.5: 'k random states encountered so far in the whole training procedure'",
)
def random_not_uniform(result: Result) -> Iterator[Violation]:
    for rows in _judged(result):
        first = first_of_each(rows.transition, rows.relabeled & rows.is_achieved)
        episode, step, length = rows.goal_episode[first], rows.goal_step[first], rows.goal_length[first]
        inside = (step > 0) & (step < length)  # the first and the last states are goals in only some buffers
        goal = (episode * 1024 + step)[inside]
        numbers, steps = rows.judged_steps()
        stored = (numbers * 1024 + steps)[steps > 0]
        if not len(goal):
            continue
        if np.isin(goal, stored).mean() < 0.95:  # goals of all episodes so far are right too
            stored = np.array([i * 1024 + t for i, e in enumerate(rows.episodes) for t in range(1, len(e))])
        rank = np.searchsorted(np.sort(stored), goal)
        by_age = counts_of(bins_of(rank, len(stored), 10), 0, 10)
        by_step = counts_of(step[inside][length[inside] == 6], 1, 6)
        own = rows.is_own[first][inside]
        expected = float((rows.length[first][inside] - 1).mean() / max(len(stored), 1))
        is_own = own.mean() > expected and proportion_z(own.sum(), len(own), expected) > LIMIT
        if uniformity_z([by_age, by_step]) > LIMIT or is_own:
            yield Violation(
                f"goals are not uniform: each tenth of the stored states, from old to new, has "
                f"{by_age.tolist()} goals, and {own.mean():.0%} of the goals are from the row's own episode"
            )


@replay_rule(
    "HB194",
    scenarios=_scenarios("geometric"),
    meaning="Goals of the strategy geometric are more often far from the step than near to it.",
    fix="sample the distance to the goal from a geometric distribution that is cut off at the last state",
    source="Eysenbach et al. 2022, arXiv 2206.07568: goals are discounted future states",
)
def geometric_prefers_far_states(result: Result) -> Iterator[Violation]:
    for rows in _judged(result):
        yield from _last_state_never_a_goal(rows, np.maximum(rows.step, rows.length - 2))
        count = (
            rows.length - rows.step - 1
        )  # without the last state, which may get the rest of the distribution
        chosen = (
            rows.has_own_goal & (rows.goal_step > rows.step) & (rows.goal_step < rows.length) & (count > 1)
        )
        index = first_of_each(rows.transition, chosen)
        half = bins_of((rows.goal_step - rows.step - 1)[index], count[index], 2)
        if half.mean() > 0.5 and proportion_z(half.sum(), len(half), 0.5) > LIMIT:
            yield Violation(
                f"{half.mean():.0%} of the goals are in the second half of the states after the step"
            )


@replay_rule(
    "HB195",
    scenarios=("few episodes",),
    meaning="All relabeled rows of one step, or of one episode in a batch, have the same goal.",
    fix="sample a goal for each row",
    source="tianshou 2.0.1, HERReplayBuffer.rewrite_transitions",
)
def goal_shared_in_batch(result: Result) -> Iterator[Violation]:
    for rows in _judged(result):
        own = rows.has_own_goal
        is_final = (rows.goal_step == rows.length)[own].all()
        is_next = (rows.goal_step == rows.step + 1)[own].all()
        open_ended = rows.relabeled & (rows.step + 1 < rows.length)
        for name, group in (
            ("one episode in a batch", rows.batch * 64 + rows.episode),
            ("one step", rows.transition),
        ):
            goals = [rows.goal_step[open_ended & (group == each)] for each in np.unique(group)]
            groups = [len(np.unique(each)) for each in goals if len(each) >= 12]
            if groups and max(groups) == 1 and not (is_final or is_next):
                found = f"{len(groups)} cases with at least 12 such rows"
                yield Violation(f"all relabeled rows of {name} have the same goal, in all {found}")
