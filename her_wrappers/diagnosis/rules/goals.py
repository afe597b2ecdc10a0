"""Rules GD2xx: the goals cannot be reached, or relabeled goals are trivial or unsuitable."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.diagnosis.facts import FEW_EPISODES, Facts, rule
from her_wrappers.rules import Violation


@rule(
    "GD201",
    fix="sample desired goals from the region that the agent can reach, or start the episodes nearer to it; "
    "use one unit for both goals, and check how achieved_goal computes a component that never changes",
    threshold="a warning if more than 50 % of the desired goals lie outside, or more than 10 % while half "
    "of the others are reached; an error above 90 %, if a component never changes, or if goals differ by a "
    "factor of about 100 or 1,000. A goal lies outside if it exceeds the achieved range by more than the "
    "success radius and 5 % of this range",
    source="Gymnasium-Robotics #264 and #269, HighwayEnv #457 and #473, panda-gym #21 and #53",
    needs=("episodes", "unsolved"),
)
def goals_outside_achieved(facts: Facts) -> Iterator[Violation]:
    """Desired goals lie outside the region of all goals that were ever achieved."""
    if facts.unit_factor:
        factor = f"{10.0**facts.unit_factor:g}"
        yield Violation(
            f"desired goals are about {factor} times as large as achieved ones, as if in other units"
        )
        return
    low, high = facts.ranges["achieved_goal"]
    margin = np.maximum(min(facts.radius, (high - low).max()), 0.05 * (high - low))
    is_outside = (facts.desired < low - margin) | (facts.desired > high + margin)  # (n, G)
    is_far = is_outside.any(axis=1)
    if not facts.is_environment:  # an arm reaches a ball, and goals may lie in the corners of its box
        desired, achieved = (
            np.linalg.norm(each - (low + high) / 2, axis=1) for each in (facts.desired, facts.finals)
        )
        is_far |= (desired > achieved.max() + margin.max()) & ~facts.is_success_episode
    found, reached = is_far.mean(), facts.is_success_episode[~is_far]
    is_learned = not facts.is_environment and reached.size and reached[len(reached) // 2 :].mean() >= 0.5
    if found <= (0.1 if is_learned else 0.5):
        return
    worst = int(is_outside.mean(axis=0).argmax())
    desired = facts.desired[:, worst]
    component = (
        f"; component {worst} was achieved from {low[worst]:.3g} to {high[worst]:.3g}, and desired from "
        f"{desired.min():.3g} to {desired.max():.3g}"
    )
    yield Violation(
        f"{found:.1%} of {len(facts)} desired goals lie outside the range of all achieved goals"
        + ("" if facts.is_projected or not is_outside.any() else component),
        severity=facts.exploration_severity if found > 0.9 or low[worst] == high[worst] else "warning",
    )


@rule(
    "GD202",
    severity="warning",
    fix="sample a desired goal at each reset; if the task has only one goal, ignore this finding",
    threshold="one goal in at least 10 episodes",
    needs=("episodes",),
)
def desired_goal_never_varies(facts: Facts) -> Iterator[Violation]:
    """All episodes have the same desired goal, so the agent can learn to reach only this goal."""
    if not np.ptp(facts.ranges["desired_goal"], axis=0).any():
        goal = "the same" if facts.is_projected else facts.desired[0].round(4).tolist()
        yield Violation(f"the desired goal is {goal} in all {len(facts)} episodes")


@rule(
    "GD203",
    fix="sample goals again until they are not achieved at the start, or reduce the success radius",
    threshold="50 % of the episodes; then the success rate says more about starts than about the agent",
    source="checker rule GE207; RHER (arXiv 2208.00843) on initial non-negative rewards",
    needs=("episodes",),
)
def starts_are_solved(facts: Facts) -> Iterator[Violation]:
    """Many episodes begin with their goal achieved, so that a success needs no action."""
    found = (facts.start_distances <= facts.tolerance).mean()
    if found >= 0.5:
        yield Violation(f"{found:.1%} of {len(facts)} episodes begin with their goal achieved")


@rule(
    "GD204",
    fix="explore more, or end episodes when the object rests; sample some goals of other episodes "
    "(--goal-selection-strategy future 0.75 random 0.25)",
    threshold="80 % of the goals that the strategy future can choose",
    source="RHER (arXiv 2208.00843) on initial non-negative rewards",
    needs=("episodes", "unsolved"),
)
def relabeled_goals_trivial(facts: Facts) -> Iterator[Violation]:
    """Most relabeled goals were achieved before the step, so that their reward needs no action."""
    found = (facts.future_distances <= facts.tolerance).mean()
    if found >= 0.8:
        yield Violation(
            f"{found:.1%} of the goals that the strategy future can choose were achieved before the step",
            severity=facts.exploration_severity,
        )


@rule(
    "GD206",
    severity="warning",
    meaning="Components of the goal have ranges of different orders of magnitude: distances ignore the "
    "smaller ones.",
    fix="scale the components of the goal to similar ranges, as parking-v0 of HighwayEnv does",
    threshold="ratio of 1,000 between the ranges of desired goals, for which no success radius is suitable",
    needs=("episodes", "components"),
)
def goal_scales_differ(facts: Facts) -> Iterator[Violation]:
    width = np.ptp(facts.ranges["desired_goal"], axis=0)
    varying = width[width > 1e-6 * width.max(initial=0)]
    if varying.size and varying.max() / varying.min() >= 1000:
        yield Violation(
            f"the ranges of the desired goals' components are {varying.min():.3g} to {varying.max():.3g} wide"
        )


@rule(
    "GD207",
    severity="warning",
    fix="these goals need something that the others do not, such as a grasp: sample easier goals of this "
    "kind at first, begin some episodes near them, or explore more",
    threshold="in the latest half of the episodes, at most 2 % successes on one side of a value and at "
    "least 50 % on the other, with at least 10 episodes and 15 % of these episodes on each side",
    source="our run of FetchPickAndPlace-v4: 0 % of the goals in the air, 97 % of the others",
    needs=("episodes", "unsolved", "success", "components"),
)
def some_goals_never_reached(facts: Facts) -> Iterator[Violation]:
    """Goals beyond some value of a component are hardly ever reached, but most other goals are."""
    if facts.is_environment:
        return  # the policies of the checker do not learn
    latest = slice(len(facts) // 2, None)
    desired, success = facts.desired[latest], facts.is_success_episode[latest]
    count = len(success)
    least = int(np.ceil(max(10, 0.15 * count)))
    sizes = np.arange(least, count - least + 1)  # of the group that fails
    splits = []
    for component, values in enumerate(desired.T):
        order = values.argsort(kind="stable")
        for side, ranked in (("below", order), ("above", order[::-1])):
            successes, ordered = success[ranked].cumsum(), values[ranked]
            failing = successes[sizes - 1] / sizes
            others = (successes[-1] - successes[sizes - 1]) / (count - sizes)
            is_split = (failing <= 0.02) & (others >= 0.5)
            is_split &= ordered[sizes - 1] != ordered[sizes]
            for i in np.flatnonzero(is_split)[-1:]:  # the largest group
                edge = (ordered[sizes[i] - 1] + ordered[sizes[i]]) / 2
                splits.append((sizes[i], component, side, edge, failing[i], others[i]))
    if splits:
        size, component, side, edge, failed, reached = max(splits)
        yield Violation(
            f"{failed:.1%} of {size} goals with a value {side} {edge:.4g} are reached, but {reached:.1%} of "
            f"the other {count - size}",
            subject=f"desired_goal[{component}]",
        )


@rule(
    "GD208",
    severity="warning",
    fix="enlarge the success radius, or reduce the motion of a step (smaller actions, a shorter time step)",
    threshold="a step missed the goal by less than half of the median motion of the steps that move the "
    "achieved goal, and no step at a larger distance was a success",
    needs=("episodes", "success", "unsolved", "components"),
)
def radius_below_step(facts: Facts) -> Iterator[Violation]:
    """The success radius is smaller than the motion of a step, so the agent jumps over its goals."""
    motions = facts.speeds[facts.speeds > 0]
    if not motions.size or not facts.has_fractions:  # bits and cells have no radius
        return
    motion, missed = float(np.median(motions)), facts.nearest_miss
    reached = facts.distances[facts.success].max(initial=0)
    if reached <= 1.001 * missed and 2 * missed < motion:
        yield Violation(
            f"a distance of {missed:.2g} to the goal is not a success, and the median motion of a step, "
            f"{motion:.2g}, is larger than twice this distance"
        )


@rule(
    "GD210",
    severity="warning",
    fix="if success at the end counts, reward each step at the goal, and do not end relabeled successes "
    "(--termination never); if success once counts, end the episodes at the goal (terminated=True)",
    threshold="in the latest half of the episodes that do not begin at their goal, 50 % reach it, and 75 % "
    "of these end elsewhere",
    needs=("episodes", "success", "unsolved"),
)
def goal_left(facts: Facts) -> Iterator[Violation]:
    """Most episodes reach their goal, but leave it again before they end."""
    latest = np.flatnonzero(facts.start_distances > facts.tolerance)
    latest = latest[len(latest) // 2 :]
    once, at_end = facts.is_success_episode[latest], facts.final_success[latest]
    if len(latest) < FEW_EPISODES / 2 or facts.is_environment:
        return
    if once.mean() >= 0.5 and at_end[once].mean() <= 0.25:
        yield Violation(
            f"{(once & ~at_end).sum()} of {once.sum()} episodes that reach their goal leave it: success once "
            f"{once.mean():.2f}, success in the last step {at_end.mean():.2f} (latest {len(latest)} episodes)"
        )
