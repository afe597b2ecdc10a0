"""Rules GE4xx: the seed determines all values, and does not affect the random numbers of other code."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from her_wrappers.checker import global_generators as generators
from her_wrappers.checker.comparing import close, differences, first_difference, identical, show
from her_wrappers.checker.lab import Lab, compare_reset, divergence, rule
from her_wrappers.checker.records import Divergence, row_of, wrong_shapes
from her_wrappers.checker.replicas import CheckedEnv
from her_wrappers.checker.rollout import call_reset, walk
from her_wrappers.data.trees import copy_tree
from her_wrappers.rules import Violation

MIN_STARTS = 3  # smallest number of repeated starts that is not taken for a coincidence
CAUSES = {
    "dynamics": "step() draws from a generator that the seed does not set, or environments share a state",
    "goal": "the goal is that of another episode, or drawn from a generator that the seed does not set",
    "reset": "reset() uses a generator that the seed does not set, or keeps state of the last episode",
}
MAX_EPISODE_STEPS = 60  # most steps that are searched for calls that seed a global generator


@rule(
    "GE401",
    fix="draw from self.np_random only, call super().reset(seed=seed), and restore everything in reset()",
    inconclusive_without=("replica",),
    wrong="self.goal = np.random.uniform(-1, 1, 2)",
    right="self.goal = self.np_random.uniform(-1, 1, 2)",
)
def not_reproducible(lab: Lab) -> Iterator[Violation]:
    """With the same seed and actions, an episode has a different goal, start, result of a step or info."""
    if found := lab.find_divergence():
        cause = lab.on_replica(partial(_probable_cause, lab, found.at_reset)) or ""
        yield _difference(found, "a second environment with the same seed and actions", cause)
    elif found := lab.on_env(lambda env: compare_reset(lab.raw_run.resets[0], env)):
        yield _difference(found, "a second reset with the same seed")
    else:
        for path, value, other in lab.on_replica(partial(_global_infos, lab)) or ():
            message = f"the info is {show(value)}, but {show(other)} for another state of global generators"
            yield Violation(message, subject=f"info {path}", severity="warning")


def _probable_cause(lab: Lab, is_reset: bool, env: CheckedEnv) -> str:
    """Return which calls draw from global generators, such as "probably, reset() draws from torch", or ""."""
    draws, states = [], walk(env, lab.budget)
    for name in ("reset()", "step()")[: 1 if is_reset or lab.budget.policy else 2]:  # a policy may draw, too
        draws += [f"{name} draws from {each}" for each in generators.used_generators(lambda: next(states))]
    return f"probably, {' and '.join(draws)}" if draws else ""


def _global_infos(lab: Lab, env: CheckedEnv) -> list[tuple[str, Any, Any]]:
    """Return (path, value, other value) of each info that changes with the state of global generators."""
    initial, infos = generators.get_global_states(), []
    names = ("reset", "step")[: 1 if lab.budget.policy else 2]  # a policy may use these generators
    for is_other in (False, True, False, False):
        generators.set_global_states(initial)
        if is_other:  # draw random numbers, so that the states differ
            random.random(), np.random.random()  # noqa: NPY002 - the state is restored
        states = zip(names, walk(env, lab.budget), strict=False)
        infos.append({name: copy_tree(info) for name, (_, _, info, _) in states})
    generators.set_global_states(initial)
    first, other, *same = infos
    changing = {path for again in same for path, *_ in differences(first, again, close)}  # such as times
    return [found for found in differences(first, other, close) if found[0] not in changing]


@rule(
    "GE402",
    fix="restore in reset() everything that step() changes, including random generators",
    needs=("replica",),
    wrong="self.position = self._draw_start()  # self.velocity keeps its value",
    right="self.position, self.velocity = self._draw_start(), np.zeros(2)",
)
def state_survives_reset(lab: Lab) -> Iterator[Violation]:
    """After a reset with a seed, an environment that was used before differs from a new one."""

    def replay_after_use(replica: CheckedEnv) -> Divergence | None:
        for _ in islice(walk(replica, lab.budget, 1), lab.replay_length + 1):
            pass  # with another seed, so that state of the first episode differs
        return lab.replay(replica)

    if lab.find_divergence() is None and (found := lab.on_replica(replay_after_use)):
        cause = "reset() does not restore some state, such as a velocity, a counter or a generator"
        yield _difference(found, "an environment that was used before", cause)


@rule(
    "GE403",
    fix="call super().reset(seed=seed) with and without options, and draw from self.np_random only",
    needs=("replica",),
    wrong="super().reset(seed=seed if options is None else None)",
    right="super().reset(seed=seed)",
)
def options_ignore_seed(lab: Lab) -> Iterator[Violation]:
    """Two calls of reset with the same seed and options return different observations."""

    def reset_twice(env: CheckedEnv) -> Divergence | None:
        for options in [None, *lab.budget.reset_options, {}, {"no such option": 0}]:
            try:
                steps = walk(env, lab.budget, options=options)
                first = copy_tree(next(steps)[1])
                next(steps)
                second = call_reset(env, lab.budget.seed, options)[0]
            except Exception:  # an environment may reject options that it does not know
                continue
            if found := divergence(f"reset with options={options!r}", first, second, at_reset=True):
                return None if options is None else found  # a difference without options is a case of GE401
        return None

    if found := lab.on_replica(reset_twice):
        cause = "the seed does not determine the reset with these options"
        yield _difference(found, "a second reset with the same seed and options", cause)


@rule(
    "GE404",
    fix="draw from self.np_random, or from a separate generator: numpy.random.default_rng(seed)",
    needs=("replica",),
    wrong="np.random.seed(seed)",
    right="super().reset(seed=seed)  # then draw from self.np_random",
)
def global_generator_seeded(lab: Lab) -> Iterator[Violation]:
    """The environment seeds a global random generator, so random numbers of other code repeat."""

    def find_calls(env: CheckedEnv) -> list[Violation]:
        steps = walk(env, lab.budget)

        def begin_episode() -> None:
            nonlocal steps
            steps = walk(env, lab.budget)
            next(steps)

        calls: dict[str, Callable[[], Any]] = {
            "the constructor": lab.replica,
            "reset()": lambda: env.reset(seed=lab.budget.seed),
            "step()": lambda: any(has_ended for *_, has_ended in islice(steps, MAX_EPISODE_STEPS)),
        }
        for name in lab.functions if lab.pairs else ():
            calls[f"{name}()"] = partial(lab.call_on, env, name, 0)
        return [
            Violation(f"this call seeds the global generator of {generator}", subject=name)
            for name, call in calls.items()
            for generator in generators.seeded_generators(call, before=begin_episode)
        ]

    yield from lab.on_replica(find_calls) or ()


@rule(
    "GE405",
    severity="warning",
    fix="pass the seed on as it is: super().reset(seed=seed) keeps the generator if seed is None; give each "
    "environment of a vector environment a seed of its own, such as seed + i",
    wrong="self.rng = np.random.default_rng(seed or 0)",
    right="super().reset(seed=seed)  # then draw from self.np_random",
)
def episodes_begin_alike(lab: Lab) -> Iterator[Violation]:
    """Episodes begin alike, since reset() without a seed seeds the environment, or all rows get one seed."""
    if lab.reset_with_other_seed() is None or not lab.raw_run.resets:
        return
    first, count = lab.raw_run.resets[0], lab.num_envs
    depends_on_seed = first_difference(first.observation, lab.reset_with_other_seed())
    if count > 1 and depends_on_seed and not any(wrong_shapes(first, count)):
        starts = [row_of(first.observation, i) for i in range(count)]
        if all(identical(starts[0], start) for start in starts):
            message = f"reset(seed={first.seed}) started all {count} environments alike"
            yield Violation(message, first.place, "rows")
    resets = [each for each in lab.rollout.resets[count:] if not each.options]
    starts_by_env = [[each.observation for each in resets if each.env == i] for i in range(count)]
    differ = (first_difference(starts[0], each) for starts in starts_by_env for each in starts[1:])
    if len(resets) < MIN_STARTS + count or any(differ):
        return
    message = f"{len(resets)} episodes began like the one before, without a seed,"
    if depends_on_seed:
        yield Violation(f"{message} although the start depends on the seed")
    elif replaced := lab.take_further_steps():
        cause = f"which replaces {replaced[0]} by a generator in the same state each time"
        yield Violation(f"{message} {cause}")


def _difference(found: Divergence, other: str, cause: str = "") -> Violation:
    is_goal = found.path.startswith("desired_goal")
    subject = "dynamics" if not found.at_reset else "goal" if is_goal else "reset"
    values = f"{found.path} is {show(found.original)}, but {show(found.repeated)} in {other}"
    return Violation(f"{values}; {cause or CAUSES[subject]}", found.place, subject)
