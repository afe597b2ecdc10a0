"""Rules GD1xx: the agent does not find out how to change the achieved goal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.diagnosis.facts import Facts, rule
from her_wrappers.rules import Violation

CLEAR = 0.3  # actions have a clear effect if the value of `action_effects` is at least this correlation

STILL_THRESHOLD = (
    "in 80 % of the episodes, the achieved goal never changes by more than 1 % of the median distance to the "
    "goal at the start, or of the diagonal of the achieved range if that is shorter"
)


@rule(
    "GD101",
    fix="check that step() applies the action; enlarge the actions; explore more (dqn: --agent epsilon=0.4) "
    "(ddpg, td3: --agent noise=0.3) (sac, tqc: --agent temperature=0.2 --agent learn_temperature=false)",
    threshold=STILL_THRESHOLD,
    needs=("episodes", "unsolved"),
)
def achieved_goal_never_moves(facts: Facts) -> Iterator[Violation]:
    """In most episodes neither the achieved goal nor the rest of the observation changes."""
    yield from _still_episodes(facts, is_observation_moved=False)


@rule(
    "GD102",
    fix="sample transitions with large TD errors more often (--prioritized); explore more (dqn, ddpg, td3: "
    "--agent epsilon=0.5) (sac, tqc: --agent temperature=0.05 --agent learn_temperature=false); train for "
    "more steps, or begin some episodes next to the object",
    threshold=STILL_THRESHOLD,
    source="RHER (arXiv 2208.00843), panda-gym #103",
    needs=("episodes", "unsolved"),
)
def object_not_touched(facts: Facts) -> Iterator[Violation]:
    """The agent moves, but in most episodes the achieved goal does not: the object is not touched."""
    yield from _still_episodes(facts, is_observation_moved=True)


def _still_episodes(facts: Facts, *, is_observation_moved: bool) -> Iterator[Violation]:
    still = ~facts.has_moved
    if still.mean() < 0.8:
        return
    others = facts.is_observation_moved[still].mean()
    if (others >= 0.5) == is_observation_moved:
        share = f"in {still.mean():.1%} of {len(facts)} episodes"
        yield Violation(
            f"the achieved goal stays where it is {share}, while the rest of the observation changes"
            if is_observation_moved
            else f"neither the achieved goal nor the rest of the observation changes {share}",
            severity=facts.exploration_severity if facts.is_observation_moved.any() else "error",
        )


@rule(
    "GD103",
    severity="warning",
    fix="begin with shorter ways to the goal (nearer starts or goals), enlarge the success radius, or train "
    "longer",
    threshold="no success in at least 10 episodes; relabeling works without successes, but evaluations then "
    "show progress only late",
    source="hindsight relabeling: arXiv 1707.01495, section 4.2",
    needs=("episodes", "success", "unsolved"),
)
def no_success(facts: Facts) -> Iterator[Violation]:
    """No episode reaches its desired goal, except those that begin with the goal achieved."""
    if not facts.success_steps.size:
        solved = int(facts.is_success_episode.sum())
        begun = f", except {solved} that begin with their goal achieved" if solved else ""
        yield Violation(
            f"none of {len(facts)} episodes reaches its goal{begun}; the smallest distance to a goal is "
            f"{facts.distances.min():.3g}"
        )


@rule(
    "GD104",
    fix="act with exploration while collecting: agent.act(observation, explore=True); add noise (ddpg, td3: "
    "--agent noise=0.2)",
    threshold="actions are equal in all of at least 50 steps",
    needs=("episodes", "unsolved"),
)
def actions_never_vary(facts: Facts) -> Iterator[Violation]:
    """All actions are the same, so nothing is explored."""
    low, high = facts.ranges["action"]
    if len(facts.rewards) >= 50 and low.size and (low == high).all():
        yield Violation(f"the action is {low.round(3).tolist()} in all {len(facts.rewards)} steps")


@rule(
    "GD105",
    fix="enlarge the effect of an action in step(), use the whole range of actions, sample nearer goals, or "
    "raise the time limit",
    threshold="no episode moves the achieved goal by more than 10 % of the median distance to the goal at "
    "the start, and a component of the actions has a correlation of at least 0.3 with changes of this goal",
    needs=("episodes", "effects", "unsolved"),
)
def actions_too_small(facts: Facts) -> Iterator[Violation]:
    """The achieved goal follows the actions, but by so little that no episode gets near its goal."""
    way, largest = float(np.median(facts.start_distances)), float(facts.moves.max())
    if facts.unit_factor or facts.success_steps.size:
        return
    if largest <= 0.1 * way and np.nanmax(facts.effects[0][0], initial=0) >= CLEAR:
        low, high = facts.ranges["action"]
        yield Violation(
            f"no episode moves the achieved goal by more than {largest:.2g}, and goals are {way:.2g} away "
            f"(median); the actions range from {low.min():.2g} to {high.max():.2g}"
        )


@rule(
    "GD106",
    severity="info",
    fix="check that the component is recorded, that step() uses it, and that the observation shows its "
    "effect; if the component is meant to have no effect, ignore this finding",
    threshold="all changes in this step and the next have a correlation below 4.5 standard errors with the "
    "component, but half of all components have a correlation of at least 0.3 with some change; or the "
    "component is the same in all steps, and another one varies",
    source="the gripper of FetchPush, which is blocked",
    needs=("effects", "unsolved"),
)
def action_without_effect(facts: Facts) -> Iterator[Violation]:
    """A component of the action has no effect on the observations, or is constant."""
    effects, (low, high) = facts.effects[0][1], facts.ranges["action"]
    for component in np.flatnonzero(low == high) if (low < high).any() else ():
        message = f"the component is {low[component]:g} in all {len(facts.rewards)} steps"
        yield Violation(message, subject=f"action[{component}]")
    if (effects >= CLEAR).mean() >= 0.5:
        for component in np.flatnonzero(effects == 0):
            yield Violation("no observed change depends on this component", subject=f"action[{component}]")
