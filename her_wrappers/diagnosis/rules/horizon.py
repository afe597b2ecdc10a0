"""Rules GD4xx: the episodes or the discount horizon are too short to reach the goal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.diagnosis.facts import Facts, rule
from her_wrappers.rules import Violation

FEW_SUCCESSES = 5
"""Smallest number of successful episodes from which a median number of steps to success is computed."""


@rule(
    "GD401",
    fix="raise gamma to at least 1 - 1 / (number of steps until a success)",
    threshold="a horizon below the median number of steps until the first success (a warning), or below a "
    "third of it (an error); without a success, estimated from the distance and the largest step seen",
    needs=("episodes", "gamma", "unsolved"),
)
def discount_too_short(facts: Facts) -> Iterator[Violation]:
    """The horizon 1 / (1 - gamma) is shorter than the number of steps until a success."""
    successes = facts.success_steps
    missed = facts.steps_needed[~facts.is_success_episode] if facts.has_moved.mean() >= 0.5 else np.zeros(0)
    if len(successes) < FEW_SUCCESSES and not len(missed):
        return
    steps = float(np.median(np.concatenate([successes, missed])))
    if steps > facts.horizon:
        yield Violation(
            f"gamma {facts.gamma:g} has a horizon of {facts.horizon:.3g} steps, but goals need {steps:.3g} "
            f"steps (median), for which gamma must be at least {1 - 1 / steps:.3f}",
            severity="error" if steps > 3 * facts.horizon else "warning",
        )


@rule(
    "GD402",
    fix="raise the time limit: max_steps= of the environment, or max_episode_steps= of gym.make",
    threshold="in 50 % of the episodes the goal is farther away than the largest step seen times the limit "
    "(an error); or the median success comes after 80 % of the limit, with under 90 % successes (a warning)",
    needs=("episodes", "unsolved"),
)
def time_limit_too_short(facts: Facts) -> Iterator[Violation]:
    """Episodes are truncated before the goal can be reached."""
    limit = facts.time_limit
    if limit is None:  # estimated
        lengths = facts.lengths[facts.truncated & ~facts.terminated]
        limit = int(facts.lengths.max())
        if not lengths.size or (lengths == limit).mean() < 0.5:  # some may be cut by the end of an epoch
            return
    if facts.has_moved.mean() < 0.5:
        return
    too_far = float((facts.steps_needed > limit).mean())
    if too_far >= 0.5:
        yield Violation(
            f"the limit is {limit} steps, but {too_far:.1%} of {len(facts)} goals are farther away than "
            f"{limit} times the largest step seen; to reach nine in ten goals, the limit must be at least "
            f"{np.quantile(facts.steps_needed, 0.9):.0f}"
        )
    elif len(facts.success_steps) >= FEW_SUCCESSES and facts.is_success_episode.mean() < 0.9:
        median = float(np.median(facts.success_steps))
        if median > 0.8 * limit:
            yield Violation(
                f"half of the successes come after step {median:.0f} of {limit}, and only "
                f"{facts.is_success_episode.mean():.1%} of the episodes succeed",
                severity="warning",
            )


@rule(
    "GD403",
    fix="return terminated=False until the task ends; call reset() only after terminated or truncated",
    threshold="50 % of the episodes",
    source="highway-env episodes that end in a crash at once: HighwayEnv #457",
    needs=("episodes",),
)
def one_step_episodes(facts: Facts) -> Iterator[Violation]:
    """Most episodes have one step, so a step can be relabeled only with its own next state."""
    found = float((facts.lengths == 1).mean())
    if found >= 0.5:
        yield Violation(f"{found:.1%} of {len(facts)} episodes have one step")


@rule(
    "GD404",
    meaning="Failed episodes are recorded as terminated at the time limit, so that the value of their last "
    "state is 0.",
    fix="return truncated=True, terminated=False at the time limit, or pass max_episode_steps= to "
    "gym.register",
    threshold="90 % of the failed episodes that terminate do so at the largest length, none truncated",
    source="arXiv 1712.00378; checker rule GE208",
    needs=("episodes", "success"),
)
def time_limit_terminates(facts: Facts) -> Iterator[Violation]:
    failed = ~facts.final_success
    longest = int(facts.lengths.max())
    at_limit, ended = failed & (facts.lengths == longest), failed & facts.terminated
    if longest > 1 and facts.terminated[at_limit].all() and at_limit.sum() >= max(5, 0.9 * ended.sum()):
        yield Violation(f"{at_limit.sum()} of {failed.sum()} failed episodes terminate at step {longest}")


@rule(
    "GD405",
    severity="warning",
    fix="end episodes less often, give failures a lower reward, or start in safer states",
    threshold="90 % of the episodes",
    needs=("episodes", "success", "unsolved"),
)
def failures_terminate(facts: Facts) -> Iterator[Violation]:
    """Most episodes terminate without a success, such as by a crash, before a goal is reached."""
    found = float((facts.terminated & ~facts.final_success).mean())
    if found >= 0.9:
        yield Violation(
            f"{found:.1%} of {len(facts)} episodes terminate without a success, after "
            f"{np.median(facts.lengths):.0f} steps (median)"
        )
