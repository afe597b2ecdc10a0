"""HB101 to HB112: relabeled rows have goals that the strategy can select."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Violation
from her_wrappers.conformance.adapter import STRATEGIES
from her_wrappers.conformance.env import UNREACHED
from her_wrappers.conformance.registry import PAPER, first_wrong_row, replay_rule
from her_wrappers.conformance.results import FIRST
from her_wrappers.conformance.statistics import LIMIT, counts_of, uniformity_z

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.conformance.results import ScenarioResults
    from her_wrappers.conformance.rows import DecodedRows, Values

IN_EPISODE = ("future", "final", "episode", "geometric")
AFTER = ("future", "geometric")


@replay_rule(
    "HB101",
    "goal-never-achieved",
    meaning="A relabeled row has a goal that no state achieved.",
    fix="use the achieved goal of a stored state, unchanged",
    wrong="goal = observation[s][:goal_size]",
    right="goal = achieved_goal[s]",
    source=f"{PAPER}, section 3.2: goals are m(s) of visited states",
    implies=(
        "HB501",
        "HB102",
        "HB103",
        "HB104",
        "HB105",
        "HB106",
        "HB107",
        "HB108",
        "HB109",
        "HB110",
        "HB111",
    ),
)
def goal_never_achieved(results: ScenarioResults) -> Iterator[Violation]:
    """Goals of relabeled rows are achieved goals of states."""
    for strategy, rows in results.goals(*STRATEGIES).items():
        yield from first_wrong_row(
            rows, rows.relabeled & ~rows.is_achieved, "an achieved goal of a state", strategy
        )


@replay_rule(
    "HB102",
    "goal-of-other-episode",
    meaning="A relabeled row has a goal of another episode.",
    fix="store the bounds of each episode, and sample the goal within them",
    wrong="s = rng.integers(t + 1, len(buffer))",
    right="s = rng.integers(t + 1, episode_end)",
    source=f"{PAPER}, section 4.5; tianshou issue 811",
    implies=(
        "HB103",
        "HB104",
        "HB105",
        "HB106",
        "HB107",
        "HB108",
    ),
)
def goal_of_other_episode(results: ScenarioResults) -> Iterator[Violation]:
    """Goals of future, final, episode and geometric are from the same episode as the row."""
    for strategy, rows in results.goals(*IN_EPISODE).items():
        wrong = rows.relabeled & rows.is_achieved & ~rows.is_own
        yield from first_wrong_row(rows, wrong, "a goal of the same episode", strategy)


def _own(rows: DecodedRows) -> Values:
    return rows.relabeled & rows.is_achieved & rows.is_own


@replay_rule(
    "HB103",
    "goal-from-the-past",
    meaning="A goal of the strategy future or geometric was achieved before the step.",
    fix="sample s from t + 1 to T, both included",
    wrong="s = rng.integers(1, T + 1)",
    right="s = rng.integers(t + 1, T + 1)",
    source=f"{PAPER}, section 4.5: states 'observed after' the transition",
    implies=(
        "HB104",
        "HB106",
    ),
)
def goal_from_the_past(results: ScenarioResults) -> Iterator[Violation]:
    """Goals of future and geometric are not achieved before the step."""
    for strategy, rows in results.goals(*AFTER).items():
        yield from first_wrong_row(
            rows, _own(rows) & (rows.goal_step < rows.step), "a state after the step", strategy
        )


@replay_rule(
    "HB104",
    "goal-of-the-present-state",
    meaning="A goal of the strategy future or geometric is the achieved goal before the action of the step.",
    fix="use achieved goals of next observations",
    wrong="goal = achieved_goal[rng.integers(t, T)]",
    right="goal = next_achieved_goal[rng.integers(t, T)]",
    source=f"{PAPER}, section 4.5; torchrl, default achieved_goal_key",
    implies=(
        "HB105",
        "HB106",
    ),
)
def goal_of_the_present_state(results: ScenarioResults) -> Iterator[Violation]:
    """Goals of future and geometric exclude the state before the action."""
    for strategy, rows in results.goals(*AFTER).items():
        yield from first_wrong_row(
            rows, _own(rows) & (rows.goal_step == rows.step), "a state after the step", strategy
        )


@replay_rule(
    "HB105",
    "last-state-never-a-goal",
    meaning="With the strategy future or episode, the last state of an episode is never a goal.",
    fix="use achieved goals of next observations, up to and including the last one",
    wrong="s = rng.integers(t + 1, T)",
    right="s = rng.integers(t + 1, T + 1)",
    source="hill-a/stable-baselines issue 666",
    implies=("HB106", "HB108"),
)
def last_state_never_a_goal(results: ScenarioResults) -> Iterator[Violation]:
    """Goals of future and episode include the last state."""
    for strategy, rows in results.goals("future", "episode").items():
        early = _own(rows) & (rows.step < 4)
        if early.sum() > 200 and not (early & (rows.goal_step == rows.length)).any():
            yield Violation(f"never in {int(early.sum())} rows", "the last state as a goal", subject=strategy)


def _first_of_each(rows: DecodedRows, chosen: np.ndarray) -> np.ndarray:
    """Return the first chosen row of each transition; buffers that relabel when storing repeat its goals."""
    index = np.flatnonzero(chosen)
    _, first = np.unique(rows.episode[index] * 64 + rows.step[index], return_index=True)
    return index[first]


@replay_rule(
    "HB106",
    "future-not-uniform",
    meaning="Goals of the strategy future are not uniform over the states after the step.",
    fix="sample an integer instead of rounding a real number",
    wrong="s = t + 1 + round(rng.random() * (T - t - 1))",
    right="s = rng.integers(t + 1, T + 1)",
    source=f"{PAPER}, section 4.5: 'k random states'",
)
def future_not_uniform(results: ScenarioResults) -> Iterator[Violation]:
    """Goals of future are uniform over the states after the step."""
    for rows in results.goals("future").values():
        first = _first_of_each(rows, _own(rows))
        t, s = rows.step[first], rows.goal_step[first]
        groups = [counts_of(s[t == step], step + 1, 7) for step in range(6)]
        if uniformity_z(groups) > LIMIT:
            got = f"{groups[0].tolist()} for states 1 to 6 from step 0"
            yield Violation(got, "equal counts for all states after the step")


@replay_rule(
    "HB107",
    "final-not-last",
    meaning="A goal of the strategy final is not the achieved goal of the last state.",
    fix="use the achieved goal of the last next observation",
    wrong="goal = achieved_goal[T - 1]",
    right="goal = next_achieved_goal[T - 1]",
    source=f"{PAPER}, section 3.3; hill-a/stable-baselines issue 666",
)
def final_not_last(results: ScenarioResults) -> Iterator[Violation]:
    """Goals of final are the achieved goals of the last states."""
    for rows in results.goals("final").values():
        yield from first_wrong_row(
            rows, _own(rows) & (rows.goal_step != rows.length), "the last state of the episode"
        )


@replay_rule(
    "HB108",
    "episode-not-uniform",
    meaning="Goals of the strategy episode are not uniform over the states of the episode.",
    fix="sample s from 1 to T, both included, independently of the step",
    wrong="s = rng.integers(t + 1, T + 1)",
    right="s = rng.integers(1, T + 1)",
    source=f"{PAPER}, section 4.5: 'k random states coming from the same episode'",
)
def episode_not_uniform(results: ScenarioResults) -> Iterator[Violation]:
    """Goals of episode are uniform over states 1 to T; state 0 is optional."""
    for rows in results.goals("episode").values():
        first = _first_of_each(rows, _own(rows))
        t, s = rows.step[first], rows.goal_step[first]
        groups = [counts_of(s[t == step], 1, 7) for step in range(6)]
        if uniformity_z(groups) > LIMIT:
            yield Violation(
                f"{groups[3].tolist()} for states 1 to 6 from step 3", "equal counts for all states"
            )


@replay_rule(
    "HB109",
    "random-not-uniform",
    "warning",
    meaning="Goals of the strategy random are not uniform over the stored episodes and their states.",
    fix="sample any stored transition, and use its achieved goal",
    wrong="goal = next_achieved_goal[rng.integers(episode_start, episode_end)]",
    right="goal = next_achieved_goal[rng.integers(stored)]",
    source=f"{PAPER}, section 4.5: 'k random states encountered so far in the whole training procedure'",
)
def random_not_uniform(results: ScenarioResults) -> Iterator[Violation]:
    """Goals of random are uniform over episodes, and over their states."""
    for rows in results.goals("random").values():
        first = _first_of_each(rows, rows.relabeled & rows.is_achieved)
        by_age = counts_of(rows.goal_episode[first] * 20 // len(rows.env.episodes), 0, 20)
        by_step = counts_of(rows.goal_step[first], 1, 6)  # states 0 and 6 are goals in only some buffers
        other = (~rows.is_own[first]).mean() if len(first) else 1.0
        if uniformity_z([by_age, by_step]) > LIMIT or other < 0.9:
            got = f"{by_age.tolist()} for each 5 % of the episodes, {other:.0%} from other episodes"
            yield Violation(got, "equal counts for all episodes and states")


@replay_rule(
    "HB110",
    "goal-shared-in-batch",
    meaning="All relabeled rows of an episode in a batch have the same goal.",
    fix="sample a goal for each row",
    wrong="goal[rows_of_episode] = next_achieved_goal[rng.integers(t, T)]",
    right="goal[rows] = next_achieved_goal[rng.integers(t[rows], T[rows])]",
    source="tianshou 2.0.1, HERReplayBuffer.rewrite_transitions",
    implies=(
        "HB103",
        "HB104",
        "HB105",
        "HB106",
        "HB108",
    ),
)
def goal_shared_in_batch(results: ScenarioResults) -> Iterator[Violation]:
    """Relabeled rows of one episode in a batch have different goals."""
    rows = results.of("few episodes")
    if rows is None or rows.strategy in {"final", "random"}:
        return
    groups = []
    for batch in range(rows.batch[-1] + 1):
        for episode in range(3):
            goals = rows.goal_step[(rows.batch == batch) & (rows.episode == episode) & rows.relabeled]
            if len(goals) >= 12:
                groups.append(len(np.unique(goals)))
    always_final = all(
        (each.goal_step == each.length)[_own(each)].all() for each in results.goals("future").values()
    )
    if groups and max(groups) == 1 and not always_final:
        yield Violation(f"1 goal in each of {len(groups)} groups of 12 rows or more", "different goals")


@replay_rule(
    "HB111",
    "next-goal-differs",
    meaning="Observation and next observation of a relabeled row have different desired goals.",
    fix="replace the desired goal in both observations",
    wrong='batch["observation"]["desired_goal"] = goals',
    right='batch["observation"]["desired_goal"] = batch["next_observation"]["desired_goal"] = goals',
    source=f"{PAPER}, algorithm 1: (s||g', a, r', s'||g')",
)
def next_goal_differs(results: ScenarioResults) -> Iterator[Violation]:
    """Observation and next observation of a relabeled row have the same desired goal."""
    result = results.of(FIRST)
    if result is not None:
        rows = result.rows
        episode, code = rows.env.decode(rows.columns["next_desired_goal"])
        differs = (episode != rows.goal_episode) | (code != rows.goal_code)
        yield from first_wrong_row(rows, rows.relabeled & differs, "the same goal in the next observation")


@replay_rule(
    "HB112",
    "original-goal-changed",
    meaning="An original row does not have the desired goal of its step.",
    fix="store the desired goal of every transition",
    wrong="desired_goal = episode.desired_goal[-1]",
    right="desired_goal = episode.desired_goal[t]",
    source="Gymnasium-Robotics, PointMaze with continuing_task: goals change inside an episode",
    offers=("changing goals",),
)
def original_goal_changed(results: ScenarioResults) -> Iterator[Violation]:
    """Original rows keep the desired goal of their step."""
    rows = results.of("changing goals")
    if rows is not None:
        wrong = ~rows.relabeled & ~rows.is_original_goal
        yield from first_wrong_row(
            rows, wrong, f"the desired goal of the step, with the number {UNREACHED} + step // 2"
        )
