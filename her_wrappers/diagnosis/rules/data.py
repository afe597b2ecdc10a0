"""Rules GD5xx: the recorded data are not suitable for learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from her_wrappers.diagnosis.facts import Facts, rule
from her_wrappers.goals.in_observation import find_goal_in_observation, find_hidden_goal
from her_wrappers.rules import Violation


@rule(
    "GD501",
    "observation-constant",
    "error",
    meaning="The observation never changes, although the achieved goal does.",
    fix="compute the observation from the state after the step, and return a new array",
    threshold="all arrays of the observation (an error), or one of several (a warning), keep one value in "
    "all states",
    source="RHER (arXiv 2208.00843): goals without the position of the agent",
    needs=("episodes",),
    implies=("GD507",),
)
def observation_constant(facts: Facts) -> Iterator[Violation]:
    arrays = {name: values for name, values in facts.observation_ranges.items() if values.size}
    constant = [name for name, values in arrays.items() if not np.ptp(values, axis=0).any()]
    states = len(facts.rewards) + len(facts)
    for name in constant if facts.moves.any() else ():
        yield Violation(
            f"its values are the same in all {states} states, while the achieved goal moves",
            subject=name,
            severity="error" if len(constant) == len(arrays) else "warning",
        )


@rule(
    "GD502",
    "not-finite",
    "error",
    meaning="Observations, goals, actions or rewards are NaN or infinite.",
    fix="find the step that divides by zero or diverges; one such batch makes all weights NaN",
    threshold="a single value",
    source="rl-zoo #433",
    needs=("episode",),
    implies=("GD608",),
)
def not_finite(facts: Facts) -> Iterator[Violation]:
    for column, name in enumerate(("observation", "goals", "action", "reward")):
        rows = np.flatnonzero(facts.not_finite[:, column])
        if rows.size:
            episode = int(np.searchsorted(facts.offsets, rows[0], side="right")) - 1
            yield Violation(
                f"{rows.size} of {len(facts.rewards)} steps have NaN or infinity",
                place=f"episode {episode}, step {rows[0] - facts.offsets[episode]}",
                subject=name,
            )


@rule(
    "GD503",
    "observation-scale",
    "warning",
    meaning="Components of the observation are larger than the others by orders of magnitude.",
    fix="scale the observation in the environment, or normalize the inputs, as the agents of `her train` do",
    threshold="a magnitude of 10,000: such an input hides all others in the first layer of a network",
    source="openai/baselines her/normalizer.py; HighwayEnv #473",
    needs=("episode",),
)
def observation_scale(facts: Facts) -> Iterator[Violation]:
    if facts.normalizes:
        return
    for name, values in facts.observation_ranges.items():
        magnitude = np.abs(values).max(axis=0)
        if magnitude.max(initial=0) >= 1e4:
            largest = int(magnitude.argmax())
            yield Violation(
                f"component {largest} has a magnitude of {magnitude[largest]:.3g}, and the median of all "
                f"components is {np.median(magnitude):.3g}",
                subject=name,
            )


@rule(
    "GD504",
    "episodes-repeated",
    "error",
    meaning="Episodes are recorded several times, with equal states and actions.",
    fix="give each environment, worker and restart its own seed, and add each episode once",
    threshold="5 % of the episodes of at least 5 steps equal an earlier episode in their first observation "
    "and all actions",
    source="TianhongDai/hindsight-experience-replay #29",
    needs=("episodes",),
    implies=("GD505",),
)
def episodes_repeated(facts: Facts) -> Iterator[Violation]:
    hashes = facts.episode_hashes[facts.lengths >= 5]
    repeated = len(hashes) - len(np.unique(hashes))
    if hashes.size and repeated >= 0.05 * len(hashes):
        yield Violation(f"{repeated} of {len(hashes)} episodes equal an earlier episode")


@rule(
    "GD505",
    "starts-repeated",
    "warning",
    meaning="Episodes repeat a few starts and goals, or all have the same start.",
    fix="pass a seed to the first reset only, and a different seed to each environment",
    threshold="at most half of at least 20 starts with their goals are different, although starts are not "
    "integers. If all episodes of a run begin with the same achieved goal, this is a note, since some "
    "environments have only one start",
    source="openai/baselines #314",
    needs=("episodes",),
)
def starts_repeated(facts: Facts) -> Iterator[Violation]:
    different = len(np.unique(facts.start_hashes))
    is_varied = facts.has_fractions and np.ptp(facts.ranges["desired_goal"], axis=0).any()
    if len(facts) < 20 or not is_varied:
        return
    if np.ptp(facts.starts, axis=0).any():
        if different <= len(facts) / 2:
            yield Violation(f"{len(facts)} episodes have only {different} different starts and goals")
    elif not facts.is_environment and not facts.is_solved:
        yield Violation(
            f"all {len(facts)} episodes begin with the same achieved goal", subject="start", severity="info"
        )


@rule(
    "GD506",
    "goal-in-observation",
    "error",
    meaning="The observation depends on the desired goal, so relabeled transitions contradict their goals.",
    fix="leave the desired goal and values computed from it out of 'observation'; agents get 'desired_goal'",
    threshold="components of the observation that determine the desired goal, or the distance to it, in all "
    "states of the first episodes",
    source="starship-landing-gym #4",
    needs=("episode",),
)
def goal_in_observation(facts: Facts) -> Iterator[Violation]:
    sample: Any = facts.sample
    episode_of_state = np.arange(len(sample)).repeat(sample.lengths + 1)
    if found := find_goal_in_observation(sample.observations, episode_of_state):
        yield Violation(f"in the first episodes, {found}")


@rule(
    "GD507",
    "achieved-goal-hidden",
    "warning",
    meaning="The observation does not show an achieved goal, such as an object, so agents do not see it.",
    fix="put what determines the achieved goal, such as the position of the object, into 'observation'",
    threshold="predictions from the observation explain less than 25 % of the variance in other episodes, "
    "while states with nearly equal observations differ, or the rest changes while the goal stays",
    needs=("episodes", "unsolved"),
)
def achieved_goal_hidden(facts: Facts) -> Iterator[Violation]:
    sample: Any = facts.sample
    episode_of_state = np.arange(len(sample)).repeat(sample.lengths + 1)
    if found := find_hidden_goal(sample.observations, episode_of_state):
        yield Violation(f"in the first episodes, {found} cannot be predicted from the observation")
