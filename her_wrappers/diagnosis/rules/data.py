"""Rules GD5xx: the recorded data are not suitable for learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from her_wrappers.diagnosis.action_effects import action_lags, sign_flips
from her_wrappers.diagnosis.columns import finite, projected, split_goals
from her_wrappers.diagnosis.facts import FEW_EPISODES, Facts, rule
from her_wrappers.goals.in_observation import find_goal_in_observation
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
    "success-late",
    "error",
    meaning="Success flags or rewards belong to the state one step before or after the step.",
    fix="compute flag and reward from the state after the step, and record them with the action of this step",
    threshold="a state one step away explains flags or rewards by its distance to the goal with less than a "
    "quarter of the errors (at least 5 steps). Steps that end an episode are left out",
    needs=("episodes",),
)
def success_late(facts: Facts) -> Iterator[Violation]:
    inner = np.ones(len(facts.rewards), np.bool_)
    inner[facts.offsets[1:] - 1] = False  # the state after the next step is that of another episode
    before = np.roll(facts.distances, 1)
    before[facts.offsets[:-1]] = facts.start_distances
    places = {"before": before, "after": np.roll(facts.distances, -1)}
    for name, values in facts.success_signals.items():
        errors = _mismatch(facts.distances[inner], values[inner])
        for place, distances in places.items():
            if errors > 5 / len(inner) and _mismatch(distances[inner], values[inner]) < errors / 4:
                yield Violation(f"the values belong to the state one step {place} their own", subject=name)


def _mismatch(distances: np.ndarray, values: np.ndarray) -> float:
    """Return how badly ``values``, larger at the goal, follow from distances: from 0, for a function, to 1.

    For two values, that is the share of steps on the wrong side of the best radius; otherwise 1 minus the rank
    correlation.
    """
    near, rank = (
        np.unique(np.round(each / max(abs(each).max(initial=0), 1e-300), 5), return_inverse=True)[1]
        for each in (distances.astype(np.float64), values.astype(np.float64))
    )
    if rank.max(initial=0) > 1:
        return float(1 - abs(np.corrcoef(near, rank)[0, 1])) if near.any() else 1.0
    steps, hits = np.bincount(near).cumsum(), np.bincount(near, rank).cumsum()
    return float((steps - 2 * hits).min(initial=0) + rank.sum()) / max(len(rank), 1)


@rule(
    "GD508",
    "success-unlike-distance",
    "error",
    meaning="Success flags or rewards contradict the distances between achieved and desired goals.",
    fix="record both goals, flag and reward of the same step and episode, in one unit and without rounding; "
    "return the flag in info['is_success']",
    threshold="no success, although a tenth of the episodes end at less than 1 % of the distance at the start, or "
    "although rewards have both sparse values; distances (also of single components) that are not smaller in "
    "steps with a success (an area under the curve below 0.7); or goals that are multiples of 0.1, 0.01, ... "
    "while successes and misses overlap by about this number (a warning)",
    needs=("episodes", "success"),
    implies=("GD103", "GD203", "GD204", "GD207", "GD208", "GD210"),
)
def success_unlike_distance(facts: Facts) -> Iterator[Violation]:
    success, last = facts.success, facts.offsets[1:] - 1
    if not success.any():
        rewarded = 0 if facts.sparse_pair is None else int((facts.rewards == facts.sparse_pair[1]).sum())
        arrived = (facts.distances[last] <= 0.01 * np.median(facts.start_distances)).mean()
        if rewarded:
            yield Violation(f"no step has a success flag, but {rewarded} have the reward of a reached goal")
        elif arrived >= 0.1:
            yield Violation(f"no step is a success, but {arrived:.1%} of the episodes end at their goals")
        return
    sample: Any = facts.sample
    before = sample.state_of_step
    goals = dict(zip(("achieved_goal", "desired_goal"), split_goals(sample.observations), strict=False))
    achieved, desired = (projected(finite(each)) for each in goals.values())
    reached, distances = success[: len(before)], facts.distances[: len(before)]
    areas = [_area(each, reached) for each in (distances, *abs(achieved[before + 1] - desired[before]).T)]
    if facts.is_success_episode[: len(sample)].sum() >= FEW_EPISODES and max(areas) < 0.7:
        yield Violation(
            f"the median distance to the goal is {np.median(distances[reached]):.3g} in steps with a success, "
            f"and {np.median(distances[~reached]):.3g} in other steps"
        )
    overlap = float(facts.distances[success].max()) - facts.nearest_miss
    errors = _mismatch(facts.distances, success) * len(success)
    for name, values in goals.items():
        steps = [10.0**-i for i in range(4) if abs(values - values.round(i)).max() <= 1e-6 * abs(values).max()]
        unit = steps[0] if steps else 1.0
        if unit < 1 and errors >= 5 and overlap <= 2 * unit * values.shape[1] ** 0.5:
            yield Violation(
                f"all values are multiples of {unit:g}, as if rounded after the recording: {errors:.0f} steps "
                f"contradict a success radius",
                subject=name,
                severity="warning",
            )


def _area(distances: np.ndarray, reached: np.ndarray) -> float:
    """Return the probability that a step with a success is nearer than another step; NaN without either."""
    near = np.unique(distances, return_inverse=True)[1]
    hits, misses = np.bincount(near[reached], minlength=near.max() + 1), np.bincount(near[~reached], minlength=near.max() + 1)
    farther = misses.sum() - misses.cumsum() + misses / 2  # misses at the same distance count half
    return float((hits * farther).sum() / (hits.sum() * misses.sum()))


@rule(
    "GD509",
    "states-jump",
    "error",
    meaning="Episodes contain states of other episodes: the last state, or several episodes joined into one.",
    fix="record the last observation before the reset (info['final_obs'] of vector environments), and end an "
    "episode at each reset",
    threshold="jumps of the achieved goal in half of the episodes, either in their last step or in another step of "
    "the same number, or in half of the steps in which the desired goal changes. A jump is longer "
    "than a tenth of the median distance to the goal at the start, and 3 times as long as the steps before and "
    "after it and as the median motion",
    needs=("episodes",),
    implies=("GD507", "GD508", "GD510", "GD511"),
)
def states_jump(facts: Facts) -> Iterator[Violation]:
    speeds, last = facts.speeds, facts.offsets[1:] - 1
    is_last = np.zeros(len(speeds), np.bool_)
    is_last[last] = True
    nearby = np.maximum(np.roll(speeds, 1), np.where(is_last, 0, np.roll(speeds, -1)))
    usual = float(np.median(speeds[speeds > 0])) if speeds.any() else 0.0
    is_jump = speeds > np.maximum(3 * np.maximum(nearby, usual), 0.1 * np.median(facts.start_distances))
    is_jump[facts.offsets[:-1]] = False  # an object can fall into its place in the first step
    ends = is_jump[last[facts.lengths >= 5]]
    sample: Any = facts.sample
    desired, before = split_goals(sample.observations)[1], sample.state_of_step
    is_changed = (desired[before + 1] != desired[before]).any(axis=1) & ~is_last[: len(before)]
    number = np.arange(len(speeds)) - facts.offsets[:-1].repeat(facts.lengths)  # of the step in its episode
    counts = np.bincount(number[~is_last], minlength=1)
    shares = np.bincount(number[~is_last], is_jump[~is_last], len(counts)) / np.maximum(counts, FEW_EPISODES)
    if ends.size >= FEW_EPISODES and ends.mean() >= 0.5:
        where, found = f"in the last step of {ends.mean():.1%} of the episodes", is_jump & is_last
    elif shares.max() >= 0.5 or (is_changed.sum() >= 5 and is_jump[: len(before)][is_changed].mean() >= 0.5):
        found = is_jump & ~is_last
        where = f"in {found.sum()} steps within episodes"
    else:
        return
    yield Violation(
        f"{where}, the achieved goal jumps by {np.median(speeds[found]):.2g}, and in other steps by {usual:.2g} "
        "(medians)"
    )


@rule(
    "GD510",
    "actions-shifted",
    "warning",
    meaning="The state follows the actions of other steps: actions and states were recorded with a shift.",
    fix="record each action with the state from which it was computed; if the environment delays actions, add the "
    "latest actions to the observation",
    threshold="actions of up to 3 steps before or after explain 80 % of the variance of a change of the state, and "
    "leave at most half of the variance that the actions of the step leave",
    needs=("effects",),
    implies=("GD106", "GD511"),
)
def actions_shifted(facts: Facts) -> Iterator[Violation]:
    shares = action_lags(facts.sample) if facts.sample is not None else {}
    best = max(shares, key=shares.__getitem__, default=0)
    if best and shares[best] >= 0.8 and 1 - shares[best] <= (1 - shares[0]) / 2:
        yield Violation(
            f"actions recorded {abs(best)} steps {'later' if best > 0 else 'before'} explain {shares[best]:.1%} of the "
            f"changes of the state, and those of the step explain {shares[0]:.1%}"
        )


@rule(
    "GD511",
    "action-sign-varies",
    "warning",
    meaning="The effect of an action has opposite signs in different episodes, and no observation shows the sign.",
    fix="check the wiring and calibration of the motors, and the transformation of actions in step() and reset()",
    threshold="at least a tenth of the episodes for each sign; in a quarter of the episodes at most, the size of the "
    "effect differs by more than about 15 % from its median",
    needs=("episodes",),
    implies=("GD106",),
)
def action_sign_varies(facts: Facts) -> Iterator[Violation]:
    component, share = sign_flips(facts.sample) if facts.sample is not None else (0, 0.0)
    if share >= 0.1:
        yield Violation(
            f"in {share:.1%} of the episodes, the effect on the state has the opposite sign",
            subject=f"action[{component}]",
        )
