"""Rules HB101 to HB112 on how goals are selected and stored in rows, HB501 on the precision of goals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES
from her_wrappers.conformance.registry import PAPER, replay_rule
from her_wrappers.conformance.rows import HORIZON, OBSERVATION_KEYS, DecodedRows, first_of_each
from her_wrappers.conformance.uniformity import LIMIT, bins_of, counts_of, proportion_z, uniformity_z
from her_wrappers.rules import Violation

IN_EPISODE = ("future", "final", "episode", "geometric")
AFTER = ("future", "geometric")


@replay_rule(
    "HB101",
    strategies=STRATEGIES,
    meaning="A relabeled row has a goal that no state achieved.",
    fix="use the achieved goal of a stored state, unchanged",
    wrong="goal = observation[s][:goal_size]",
    right="goal = achieved_goal[s]",
    source=f"{PAPER}, section 3.2: goals are m(s) of visited states",
    implies=("HB102", "HB107", "HB109", "HB110", "HB111", "HB501"),
)
def goal_never_achieved(rows: DecodedRows) -> Iterator[Violation]:
    wrong = rows.relabeled & ~rows.is_achieved
    yield from rows.violation(wrong, "no state achieved the goal of the relabeled row")


@replay_rule(
    "HB102",
    strategies=IN_EPISODE,
    meaning="A relabeled row has a goal of another episode.",
    fix="store the bounds of each episode, and sample the goal within these bounds",
    wrong="s = rng.integers(t + 1, len(buffer))",
    right="s = rng.integers(t + 1, episode_end)",
    source=f"{PAPER}, section 4.5; tianshou issue 811",
    implies=("HB103", "HB107"),
)
def goal_of_other_episode(rows: DecodedRows) -> Iterator[Violation]:
    wrong = rows.relabeled & rows.is_achieved & ~rows.is_own
    yield from rows.violation(wrong, "the goal was achieved in another episode")


@replay_rule(
    "HB103",
    strategies=AFTER,
    meaning="A goal of the strategy future or geometric was achieved before the step.",
    fix="for step t of an episode of T steps, sample the goal's state s from t + 1 to T, both included",
    wrong="s = rng.integers(1, T + 1)",
    right="s = rng.integers(t + 1, T + 1)",
    source=f"{PAPER}, section 4.5: states 'observed after' the transition",
    implies=("HB104",),
)
def goal_from_the_past(rows: DecodedRows) -> Iterator[Violation]:
    wrong = rows.has_own_goal & (rows.goal_step < rows.step)
    yield from rows.violation(wrong, "the goal was achieved before the step")


@replay_rule(
    "HB104",
    strategies=AFTER,
    meaning="A goal of the strategy future or geometric is the achieved goal before the action of the step.",
    fix="use achieved goals of next observations",
    wrong="goal = achieved_goal[rng.integers(t, T)]",
    right="goal = next_achieved_goal[rng.integers(t, T)]",
    source=f"{PAPER}, section 4.5; torchrl, default achieved_goal_key",
    implies=("HB105",),
)
def goal_of_the_present_state(rows: DecodedRows) -> Iterator[Violation]:
    wrong = rows.has_own_goal & (rows.goal_step == rows.step)
    yield from rows.violation(wrong, "the goal was achieved before the action of the step")


@replay_rule(
    "HB105",
    strategies=("future", "episode"),
    meaning="The last state of an episode is never a goal of the strategy future or episode.",
    fix="use achieved goals of next observations, up to and including the last one",
    wrong="s = rng.integers(t + 1, T)",
    right="s = rng.integers(t + 1, T + 1)",
    source="hill-a/stable-baselines issue 666",
    implies=("HB106", "HB108"),
)
def last_state_never_a_goal(rows: DecodedRows) -> Iterator[Violation]:
    first = 0 if rows.strategy == "episode" else rows.step
    early = rows.has_own_goal & (rows.length - first > 1)
    expected = (1 / (rows.length - first)[early]).sum()
    if expected > 20 and not (early & (rows.goal_step == rows.length)).any():
        yield Violation(f"the last state was never chosen as a goal: 0 of {int(early.sum())} rows")


def _not_uniform(rows: DecodedRows, first: np.ndarray | int) -> Iterator[Violation]:
    """Yield a violation unless goals are uniform over all states of the episode after state ``first``."""
    count = rows.length - first
    chosen = rows.has_own_goal & (rows.goal_step > first)  # state 0 is optional
    index = first_of_each(rows, chosen)
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
    "HB106",
    strategies=("future",),
    meaning="Goals of the strategy future are not uniform over the states after the step.",
    fix="sample an integer instead of rounding a real number",
    wrong="s = t + 1 + round(rng.random() * (T - t - 1))",
    right="s = rng.integers(t + 1, T + 1)",
    source=f"{PAPER}, section 4.5: 'k random states'",
)
def future_not_uniform(rows: DecodedRows) -> Iterator[Violation]:
    yield from _not_uniform(rows, rows.step)


@replay_rule(
    "HB107",
    strategies=("final",),
    meaning="A goal of the strategy final is not the achieved goal of the last state.",
    fix="use the achieved goal of the last next observation",
    wrong="goal = achieved_goal[T - 1]",
    right="goal = next_achieved_goal[T - 1]",
    source=f"{PAPER}, section 3.3; hill-a/stable-baselines issue 666",
)
def final_not_last(rows: DecodedRows) -> Iterator[Violation]:
    wrong = rows.has_own_goal & (rows.goal_step != rows.length)
    yield from rows.violation(wrong, "the goal is not that of the last state of the episode")


@replay_rule(
    "HB108",
    strategies=("episode",),
    meaning="Goals of the strategy episode are not uniform over the states of the episode.",
    fix="for each step of an episode of T steps, sample the goal's state s from 1 to T, both included",
    wrong="s = rng.integers(t + 1, T + 1)",
    right="s = rng.integers(1, T + 1)",
    source=f"{PAPER}, section 4.5: 'k random states coming from the same episode'",
)
def episode_not_uniform(rows: DecodedRows) -> Iterator[Violation]:
    yield from _not_uniform(rows, np.zeros(len(rows), int))


@replay_rule(
    "HB109",
    severity="warning",
    strategies=("random",),
    meaning="Goals of the strategy random are not uniform over the stored episodes and their states.",
    fix="sample any stored transition, and use its achieved goal",
    wrong="goal = next_achieved_goal[rng.integers(episode_start, episode_end)]",
    right="goal = next_achieved_goal[rng.integers(stored)]",
    source=f"{PAPER}, section 4.5: 'k random states encountered so far in the whole training procedure'",
)
def random_not_uniform(rows: DecodedRows) -> Iterator[Violation]:
    first = first_of_each(rows, rows.relabeled & rows.is_achieved)
    episode, step, length = rows.goal_episode[first], rows.goal_step[first], rows.goal_length[first]
    inside = (step > 0) & (step < length)  # the first and the last states are goals in only some buffers
    goal = (episode * 1024 + step)[inside]
    if not len(goal):
        return
    stored = np.unique((rows.transition + 1)[rows.step + 1 < rows.length])
    if np.isin(goal, stored).mean() < 0.95:  # goals of all episodes so far are right too
        stored = np.array([e.number * 1024 + t for e in rows.env.episodes for t in range(1, e.length)])
    rank = np.searchsorted(stored, goal)
    by_age = counts_of(bins_of(rank, len(stored), 10), 0, 10)
    same = length[inside] == 6
    by_step = counts_of(step[inside][same], 1, 6)
    own, expected = rows.is_own[first][inside], (rows.length[first][inside] - 1).mean() / max(len(stored), 1)
    is_own = own.mean() > expected and proportion_z(int(own.sum()), len(own), float(expected)) > LIMIT
    if uniformity_z([by_age, by_step]) > LIMIT or is_own:
        yield Violation(
            f"goals are not uniform: each tenth of the stored states, from old to new, has {by_age.tolist()} "
            f"goals, and {own.mean():.0%} of the goals are from the row's own episode"
        )


@replay_rule(
    "HB110",
    scenario="few episodes",
    meaning="All relabeled rows of one step, or of one episode in a batch, have the same goal.",
    fix="sample a goal for each row",
    wrong="goal[rows_of_episode] = next_achieved_goal[rng.integers(t, T)]",
    right="goal[rows] = next_achieved_goal[rng.integers(t[rows], T[rows])]",
    source="tianshou 2.0.1, HERReplayBuffer.rewrite_transitions",
    implies=("HB103", "HB206"),
)
def goal_shared_in_batch(rows: DecodedRows) -> Iterator[Violation]:
    own = rows.has_own_goal
    is_final = (rows.goal_step == rows.length)[own].all()  # which HB106 reports
    is_next = (rows.goal_step == rows.step + 1)[own].all()  # which HB105 reports
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


@replay_rule(
    "HB111",
    meaning="The observation and the next observation of a row have different desired goals.",
    fix="replace the desired goal in both observations",
    wrong='batch["observation"]["desired_goal"] = goals',
    right='batch["observation"]["desired_goal"] = batch["next_observation"]["desired_goal"] = goals',
    source=f"{PAPER}, algorithm 1: (s||g', a, r', s'||g')",
    implies=("HB501",),
)
def next_goal_differs(rows: DecodedRows) -> Iterator[Violation]:
    yield from rows.violation_in("next goal")


@replay_rule(
    "HB112",
    scenario="goals that change",
    meaning="An original row does not have the desired goal of its step.",
    fix="store the desired goal of every transition",
    wrong="desired_goal = episode.desired_goal[-1]",
    right="desired_goal = episode.desired_goal[t]",
    source="Gymnasium-Robotics, PointMaze with continuing_task: goals change inside an episode",
)
def original_goal_changed(rows: DecodedRows) -> Iterator[Violation]:
    yield from rows.violation_in("original goal")


@replay_rule(
    "HB501",
    meaning="Goals lose precision: their dtype or their values differ from those of the environment.",
    fix="allocate arrays with the dtype of the goal space",
    wrong="desired_goal = np.zeros((size, goal_size), np.float32)",
    right='desired_goal = np.zeros((size, goal_size), env.observation_space["desired_goal"].dtype)',
    source="Gymnasium-Robotics: goals are float64, and thresholds are compared in float64",
    implies=("HB502", "HB503"),
)
def goal_precision(rows: DecodedRows) -> Iterator[Violation]:
    for key in OBSERVATION_KEYS:
        episode, code = rows.env.decode(rows.columns[key])
        exact, got = rows.env.encode(np.maximum(episode, 0), code), rows.columns[key]
        if got.dtype != exact.dtype or not np.array_equal(got, exact):
            yield Violation(
                f"a goal is {got[0].tolist()} ({got.dtype}) instead of {exact[0].tolist()} ({exact.dtype})",
                subject=key,
            )
