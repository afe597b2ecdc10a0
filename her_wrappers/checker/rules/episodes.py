"""Rules GE3xx: returned data and the goal stay unchanged. Rules GE4xx: the seed determines all values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from her_wrappers.checker.comparing import (
    arrays_in,
    differences,
    first_difference,
    identical,
    share_memory,
    show,
)
from her_wrappers.checker.evidence import Evidence, rule
from her_wrappers.checker.goal_calls import flat, stack
from her_wrappers.checker.records import STATE, Divergence, StepRecord, spread
from her_wrappers.checker.stale_goals import stale_goal
from her_wrappers.goals.in_observation import find_goal_in_observation
from her_wrappers.rules import Violation

MAX_STATES = 1000
"""Largest number of states that are searched for the desired goal."""

MIN_STARTS = 3
"""Smallest number of episodes with equal starts that is not taken for a coincidence."""

JUMP = 2
"""A move of the achieved goal is a jump if it is this number of times larger than all other moves."""

MAX_RECORDS = 30
"""Number of resets and steps whose memory is compared, since sharing shows in the first steps."""


@rule(
    "GE301",
    "data-changes-later",
    meaning="An observation, info, reward or flag changes after it was returned: the environment reuses the "
    "object.",
    fix="return copies of arrays that the environment changes later",
    repair="CopyObservation",
    passive=True,
    implies=("GE302",),
    wrong="""
self._position += action
return {"achieved_goal": self._position, ...}""",
    right="""
self._position = self._position + action
return {"achieved_goal": self._position.copy(), ...}""",
)
def data_changes_later(evidence: Evidence) -> Iterator[Violation]:
    """Returned objects must not change later, so that a buffer can store them without a copy."""
    for record in evidence.rollout.records:
        for name, live in record.live.items():
            for key, before, after in differences(getattr(record, name), live, identical):
                message = f"{show(before)} was returned, and the object later changed to {show(after)}"
                yield Violation(message, record.place, f"{name} {key}".strip())


@rule(
    "GE302",
    "shared-memory",
    "warning",
    meaning="Observations share memory with the environment, another key, an earlier observation or the "
    "action, or step() changes the action: writing to one array changes another.",
    fix="return and store copies",
    repair="CopyObservation",
    passive=True,
    wrong="""
return {"observation": state, "achieved_goal": state[:2], "desired_goal": self.goal}""",
    right="""
return {"observation": state, "achieved_goal": state[:2].copy(), "desired_goal": self.goal.copy()}""",
)
def shared_memory(evidence: Evidence) -> Iterator[Violation]:
    """Returned arrays must not share memory with each other, the environment or the action."""
    records = evidence.rollout.steps or evidence.rollout.resets
    for key, array in arrays_in(records[-1].live["observation"]) if records else ():
        owner = next((name for name, attribute in evidence.state if share_memory(array, attribute)), None)
        if owner is not None:
            yield _shares(key, f"the environment's {owner}")
    ordered = sorted(evidence.rollout.records, key=lambda record: (record.episode, getattr(record, "t", -1)))
    earlier: list[tuple[str, np.ndarray]] = []
    for record in ordered[:MAX_RECORDS]:
        arrays = arrays_in(record.live["observation"])
        for (other_key, other), (key, array) in combinations(arrays, 2):
            if share_memory(array, other):
                yield _shares(key, other_key, record.place)
        for (key, array), (other_key, other) in product(arrays, earlier):
            if key == other_key and share_memory(array, other):
                yield _shares(key, "the previous observation", record.place)
        earlier = arrays
    for step in evidence.steps[:MAX_RECORDS]:
        yield from _shared_action(step)


def _shared_action(step: StepRecord) -> Iterator[Violation]:
    if not identical(step.action, step.live_action):
        message = f"step() changed the action {show(step.action)} to {show(step.live_action)}"
        yield Violation(message, step.place, "action")
    if isinstance(step.live_action, np.ndarray):
        for key, array in arrays_in({name: step.live[name] for name in STATE}):
            if share_memory(array, step.live_action):
                yield _shares(key, "the action", step.place)


def _shares(name: str, other: str, place: str = "") -> Violation:
    return Violation(f"{name} shares memory with {other}", place, name.split("/", maxsplit=1)[0])


@rule(
    "GE303",
    "goal-changes-in-episode",
    meaning="desired_goal changes between two resets, so that one episode has several goals.",
    fix="draw goals in reset() only, or end the episode in the step that changes the goal",
    needs=("goals",),
    passive=True,
    implies=("GE101",),
    wrong="""
if reached:
    self.goal = self._draw_goal()  # in the middle of an episode""",
    right="terminated = reached  # reset() draws the next goal",
)
def goal_changes_in_episode(evidence: Evidence) -> Iterator[Violation]:
    """The desired goal must stay the same from the reset to the end of an episode."""
    is_changed = [
        not identical(step.before["desired_goal"], step.observation["desired_goal"])
        for step in evidence.steps
    ]
    changes = [step for step, changed in zip(evidence.steps, is_changed, strict=True) if changed]
    for step in changes:
        before, after = show(step.before["desired_goal"]), show(step.observation["desired_goal"])
        cause = _cause_of_change(evidence.steps, is_changed) if step is changes[0] else ""
        yield Violation(f"step() changed desired_goal from {before} to {after}{cause}", step.place)


def _cause_of_change(steps: list[StepRecord], is_changed: list[bool]) -> str:
    """Return the likely cause of the first change of the desired goal, or an empty text."""
    first = is_changed.index(True)
    try:
        before, after = (
            np.stack([flat(observation["achieved_goal"]) for observation in observations])
            for observations in ([step.before for step in steps], [step.observation for step in steps])
        )
        if not (before[first].any() or flat(steps[first].before["desired_goal"]).any()):
            return "; both goals were zero before, as in the first observations of DelayObservation"
    except (TypeError, ValueError):
        return ""  # goals of different shapes
    moves = np.linalg.norm(after - before, axis=1)
    others = moves[~np.array(is_changed)]
    if others.size and moves[first] > JUMP * others.max():
        return "; the achieved goal jumps in the same step, as if step() calls reset()"
    return ""


@rule(
    "GE304",
    "goal-in-observation",
    meaning="The observation depends on the desired goal, so that it contradicts a relabeled goal.",
    fix="leave the goal out of the observation: agents get desired_goal, and can compute differences from it",
    needs=("steps", "goals"),
    wrong='return {"observation": np.concatenate([position, self.goal - position]), ...}',
    right='return {"observation": position, ...}',
)
def goal_in_observation(evidence: Evidence) -> Iterator[Violation]:
    """Parts of an observation other than desired_goal must not depend on the desired goal."""
    records = evidence.rollout.records
    chosen = spread(records, MAX_STATES)
    try:
        observations = stack([record.observation for record in chosen])
        found = find_goal_in_observation(observations, np.array([record.episode for record in chosen]))
    except (IndexError, TypeError, ValueError):
        return  # GE005 reports observations that are not arrays of one shape
    if found is not None:
        yield Violation(found)


@rule(
    "GE305",
    "stale-achieved-goal",
    meaning="The achieved goal belongs to an earlier state than the rest of the observation.",
    fix="compute the achieved goal after the state has changed, in reset() too: call mj_forward in MuJoCo",
    needs=("steps", "goals"),
    wrong="""
mujoco.mj_resetData(self.model, self.data)
self.data.qpos[:] = self._draw_start()
return self._observation(), {}""",
    right="""
self.data.qpos[:] = self._draw_start()
mujoco.mj_forward(self.model, self.data)
return self._observation(), {}""",
)
def stale_achieved_goal(evidence: Evidence) -> Iterator[Violation]:
    """The achieved goal must belong to the same state as the rest of the observation."""
    found = stale_goal(evidence.rollout)
    if found is not None:
        yield found


@rule(
    "GE401",
    "not-reproducible",
    meaning="With the same seed and actions, an episode has a different goal, start or result of a step.",
    fix="draw from self.np_random only, call super().reset(seed=seed), and restore everything in reset()",
    inconclusive_without=("replica",),
    implies=("GE402", "GE403", "GE404"),
    wrong="self.goal = np.random.uniform(-1, 1, 2)",
    right="self.goal = self.np_random.uniform(-1, 1, 2)",
)
def not_reproducible(evidence: Evidence) -> Iterator[Violation]:
    """The same seed and actions must give equal values in a second environment and after a second reset."""
    found, other = evidence.divergence, "a second environment with the same seed and actions"
    if found is None:
        found, other = evidence.reset_divergence, "a second reset with the same seed"
    if found is None:
        return
    cause = "step() draws from a generator that the seed does not set"
    if found.at_reset and _subject(found) == "goal" and "options=" not in found.place:
        cause = "the goal is drawn from a generator that the seed does not set"
    elif "options=" in found.place:
        cause = "the seed does not determine the reset with these options"
    elif found.at_reset:
        cause = "reset() uses a generator that the seed does not set, or keeps state of the last episode"
    yield _difference(found, other, cause)


@rule(
    "GE402",
    "state-survives-reset",
    meaning="After a reset with a seed, an environment that was used before differs from a new one.",
    fix="restore in reset() everything that step() changes, including random generators",
    needs=("replica",),
    wrong="""
def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.position = self._draw_start()  # self.velocity keeps its value""",
    right="""
def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.position, self.velocity = self._draw_start(), np.zeros(2)""",
)
def state_survives_reset(evidence: Evidence) -> Iterator[Violation]:
    """After a reset with a seed, an environment that was used before must behave like a new one."""
    if evidence.rerun_divergence is not None:
        cause = "reset() does not restore some state, such as a velocity, a counter or a generator"
        yield _difference(evidence.rerun_divergence, "an environment that was used before", cause)


@rule(
    "GE403",
    "options-ignore-seed",
    meaning="Two calls of reset with the same seed and options return different observations.",
    fix="call super().reset(seed=seed) with and without options, and draw from self.np_random only",
    needs=("replica",),
    wrong="""
if options is not None:
    return self._reset_to(options)  # without super().reset(seed=seed)""",
    right="""
super().reset(seed=seed)
if options is not None:
    return self._reset_to(options)""",
)
def options_ignore_seed(evidence: Evidence) -> Iterator[Violation]:
    """Two resets with the same seed and the same options must return the same observation."""
    if evidence.options_divergence is not None:
        cause = "the seed does not determine the reset with these options"
        yield _difference(evidence.options_divergence, "a second reset with the same seed and options", cause)


@rule(
    "GE404",
    "global-generator-seeded",
    meaning="The environment seeds a global random generator, so random numbers of other code repeat.",
    fix="draw from self.np_random, or from a separate generator: numpy.random.default_rng(seed)",
    needs=("replica",),
    wrong="""
np.random.seed(0)
noise = np.random.normal(size=2)""",
    right="noise = self.np_random.normal(size=2)",
)
def global_generator_seeded(evidence: Evidence) -> Iterator[Violation]:
    """An environment must not seed global generators, since exploration and replay may draw from these."""
    for call, generator in evidence.global_seeding:
        yield Violation(f"this call seeds the global generator of {generator}", subject=call)


@rule(
    "GE405",
    "reset-repeats-episode",
    "warning",
    meaning="reset() without a seed seeds the environment, so that all episodes begin alike.",
    fix="pass the seed on as it is: super().reset(seed=seed) keeps the generator if seed is None",
    wrong="self.rng = np.random.default_rng(seed or 0)",
    right="super().reset(seed=seed)  # then draw from self.np_random",
)
def reset_repeats_episode(evidence: Evidence) -> Iterator[Violation]:
    """A reset without a seed must continue the random sequence, so that episodes start differently."""
    vector, resets = evidence.vector, evidence.rollout.resets
    seeded = vector.env.num_envs if vector else 1  # the first resets
    starts = [each.observation for each in resets[seeded:] if not each.options]
    if evidence.other_start is None or len(starts) < MIN_STARTS:
        return
    if any(first_difference(starts[0], start) for start in starts[1:]):
        return
    cause = ""
    first = (vector.batches if vector else evidence.rollout).resets[0].observation
    if first_difference(first, evidence.other_start):
        cause = "although the start depends on the seed"
    elif evidence.new_generators:
        cause = f"which replaces {evidence.new_generators[0]} by a generator in the same state each time"
    if cause:
        yield Violation(f"{len(starts)} episodes began alike after reset() without a seed, {cause}")


def _subject(found: Divergence) -> str:
    if not found.at_reset:
        return "dynamics"
    return "goal" if found.path.startswith("desired_goal") else "reset"


def _difference(found: Divergence, other: str, cause: str) -> Violation:
    values = f"{found.path} is {show(found.original)}, but {show(found.repeated)} in {other}"
    return Violation(f"{values}; {cause}", found.place, _subject(found))
