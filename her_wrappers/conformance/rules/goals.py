"""Rules HB190 to HB194: how often each state is the goal of a relabeled row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import ENOUGH, Rows, Values
from her_wrappers.conformance.scenarios import EQUAL_EPISODES, Result
from her_wrappers.conformance.uniformity import LIMIT, share_z
from her_wrappers.rules import Violation

PARTS = 8
OTHERS = (EQUAL_EPISODES, "ends of episodes", "used buffer")


def _judged(result: Result, strategy: str) -> list[Rows]:
    """Return the `Rows` of ``strategy`` with only allowed goals, since other rules report wrong goals."""
    return [rows for rows in result.rows if rows.strategy == strategy and rows.is_sound("goal")]


def _not_uniform(rows: Rows, first: Values) -> Iterator[Violation]:
    """Yield a violation unless goals are uniform over all states of the episode after state ``first``."""
    for least in (2, 256):  # all rows, and those with more states than a byte can count
        judged = rows.has_own_goal & (rows.goal_step > first) & (rows.length - first >= least)
        count, place = (rows.length - first)[judged], (rows.goal_step - first - 1)[judged]
        # A state belongs to the part in which its middle lies; parts of short episodes are single states.
        borders = np.ceil(np.multiply.outer(np.arange(PARTS + 1), count / PARTS) - 0.5)
        groups = [(f"part {i + 1} of {PARTS} of", *each) for i, each in enumerate(pairwise(borders))]
        groups += [("the first of", 0 * count, 0 * count + 1), ("the last of", count - 1, count)]
        for name, low, high in groups:
            chosen, probability = (place >= low) & (place < high), (high - low) / count
            is_absent = not chosen.any() and probability.sum() >= ENOUGH
            if is_absent or share_z(chosen, probability, rows.batch[judged], rows.here[judged]) > LIMIT:
                text = f"{chosen.mean():.3f} of {len(chosen)} goals are {name} the states"
                yield Violation(f"{text} that can be chosen, instead of {probability.mean():.3f}")
                return


@replay_rule(
    "HB190",
    ("strategy future", *OTHERS),
    offers=("future",),
    fix="for step t of an episode of T steps, sample the integer s from t + 1 to T, both included",
    source=f"{PAPER}, section 4.5: 'k random states'; hill-a/stable-baselines issue 666",
)
def future_not_uniform(result: Result) -> Iterator[Violation]:
    """Goals of the strategy future are not uniform over the states after the step."""
    for rows in _judged(result, "future"):
        yield from _not_uniform(rows, rows.step)


@replay_rule(
    "HB192",
    ("strategy episode", *OTHERS),
    offers=("episode",),
    fix="for each step of an episode of T steps, sample the goal's state s from 1 to T, both included",
    source=f"{PAPER}, section 4.5: 'k random states coming from the same episode'",
)
def episode_not_uniform(result: Result) -> Iterator[Violation]:
    """Goals of the strategy episode are not uniform over the states of the episode."""
    for rows in _judged(result, "episode"):
        yield from _not_uniform(rows, np.zeros(len(rows), int))


@replay_rule(
    "HB193",
    ("strategy random", *OTHERS),
    offers=("random",),
    severity="warning",
    fix="sample any stored transition, and use its achieved goal",
    source=f"{PAPER}, section 4.5: 'k random states encountered so far in the whole training procedure'",
)
def random_not_uniform(result: Result) -> Iterator[Violation]:
    """Goals of the strategy random are not uniform over the stored episodes and their states."""
    for rows in _judged(result, "random"):
        # The first and the last states are goals in only some buffers.
        inside = (rows.features["step"] > 0) & (rows.features["steps to the end"] > 0)
        chosen = rows.is_relabeled & (rows.goal_state >= 0) & inside[rows.goal_state]
        goals, stored = rows.goal_state[chosen], inside
        # If many goals are of evicted episodes, goals of all episodes so far are right too.
        if rows.may_be_sampled[goals].sum() > 0.95 * len(goals):
            stored = inside & rows.must_be_sampled
        judged = stored[goals]
        clusters = rows.batch[chosen][judged], rows.here[chosen][judged]
        texts = list(rows.uneven(goals[judged], stored, *clusters))
        own = (rows.goal_episode == rows.episode)[chosen]
        expected = (rows.length[chosen] - 1) / stored.sum()
        if own.sum() > expected.sum() and share_z(own, expected, rows.batch[chosen]) > LIMIT:
            texts.append(f"{own.mean():.3f} of {len(own)} are of the row's own episode")
        for text in texts[:1]:
            yield Violation(f"goals are not uniform over the stored states: {text}")


@replay_rule(
    "HB194",
    ("strategy geometric", *OTHERS),
    offers=("geometric",),
    fix="sample the distance to the goal from a geometric distribution that is cut off at the last state",
    source="Eysenbach et al. 2022, arXiv 2206.07568: goals are discounted future states",
)
def geometric_prefers_far_states(result: Result) -> Iterator[Violation]:
    """Goals of the strategy geometric are more often far from the step than near to it."""
    for rows in _judged(result, "geometric"):
        last = rows.has_own_goal & (rows.step == rows.length - 2)
        if last.sum() > 40 and not (rows.goal_step == rows.length)[last].any():
            yield Violation(f"the last state was never chosen as a goal: 0 of {last.sum()} rows")
        # Without the last state, which may get the rest of the distribution, and the state in the middle.
        excess = 2 * (rows.goal_step - rows.step) - (rows.length - rows.step)
        judged = rows.has_own_goal & (rows.goal_step < rows.length) & (excess != 0)
        far = (excess > 0)[judged]
        if far.sum() > len(far) / 2 and share_z(far, 0.5, rows.batch[judged], rows.here[judged]) > LIMIT:
            share = f"{far.mean():.0%} of the goals"
            yield Violation(f"{share} are in the second half of the states after the step")
