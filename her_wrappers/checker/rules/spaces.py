"""Rules GE0xx: the environment runs, has the spaces of a goal environment, and returns elements of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.checker.comparing import close, show, type_name
from her_wrappers.checker.evidence import REWARD_NEEDS, Evidence, rule
from her_wrappers.checker.goal_calls import reward_number
from her_wrappers.data.trees import Path, path_name
from her_wrappers.goals.interface import OBSERVATION_KEYS, own_goal_space
from her_wrappers.rules import Violation
from her_wrappers.support.error_texts import describe, raised_at


@rule(
    "GE000",
    "environment-raises",
    meaning="reset, step or compute_reward raised an exception.",
    fix="read the exception; correct the line that raised it, or the values that the method returned",
    implies=("GE104", "GE113"),
    wrong="""
def step(self, action):
    return observation, reward, done, {}""",
    right="""
def step(self, action):
    return observation, reward, terminated, truncated, {}""",
)
def environment_raises(evidence: Evidence) -> Iterator[Violation]:
    """reset, step and compute_reward must not raise an exception."""
    failure = evidence.rollout.failure
    if failure is not None:
        hint = f"; {failure.hint}" if failure.hint else ""
        yield Violation(f"{failure.call} raised {describe(failure.error)}{hint}", failure.place)
    errors = [result.error for result in evidence.pair_results if result.error is not None]
    if errors and len(errors) == len(evidence.pair_results) and evidence.info_form is None:
        where = raised_at(errors[0])
        message = f"each call for one goal raised {describe(errors[0])}{'; ' if where else ''}{where}"
        yield Violation(message, subject="compute_reward")


@rule(
    "GE001",
    "not-dict-observation",
    meaning="The observation space is not a Dict, so there is no goal to relabel.",
    fix="use spaces.Dict with observation, achieved_goal and desired_goal",
    repair="AsGoalEnv",
    wrong="observation_space = spaces.Box(-1, 1, (6,))",
    right="""
observation_space = spaces.Dict(
    observation=spaces.Box(-1, 1, (6,)), achieved_goal=goal_space, desired_goal=goal_space
)""",
)
def not_dict_observation(evidence: Evidence) -> Iterator[Violation]:
    """The observation space must be a Dict."""
    if not isinstance(evidence.observation_space, spaces.Dict):
        keys = ", ".join(map(repr, OBSERVATION_KEYS))
        yield Violation(
            f"the observation space is {show(evidence.observation_space)}, not a Dict with the keys {keys}"
        )


@rule(
    "GE002",
    "missing-goal-key",
    meaning="The observation space or an observation lacks a goal key.",
    fix="add the key to the space and to the observations of reset() and step()",
    repair="AsGoalEnv",
    wrong='return {"observation": position, "desired_goal": self.goal}',
    right="""
return {"observation": position, "achieved_goal": position.copy(), "desired_goal": self.goal.copy()}""",
)
def missing_goal_key(evidence: Evidence) -> Iterator[Violation]:
    """The observation space and every observation must have the three goal keys."""
    space = evidence.observation_space
    if not isinstance(space, spaces.Dict):
        return
    for key in OBSERVATION_KEYS:
        if key not in space.spaces:
            found = ", ".join(map(repr, space.spaces))
            yield Violation(f"the observation space has only the keys {found}", subject=key)
            continue
        for record in evidence.rollout.records:
            if isinstance(record.observation, dict) and key not in record.observation:
                found = ", ".join(map(repr, record.observation))
                yield Violation(f"the observation has only the keys {found}", record.place, key)


@rule(
    "GE003",
    "no-compute-reward",
    meaning="get_wrapper_attr finds compute_reward neither in the environment nor in a wrapper.",
    fix="define compute_reward(achieved_goal, desired_goal, info) on the environment",
    repair="AsGoalEnv",
    needs=("goals",),
    wrong="""
def step(self, action):
    reward = -np.linalg.norm(self.position - self.goal)""",
    right="""
def compute_reward(self, achieved_goal, desired_goal, info):
    return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)""",
)
def no_compute_reward(evidence: Evidence) -> Iterator[Violation]:
    """The environment must have compute_reward, so that rewards can be computed for relabeled goals."""
    failure = evidence.rollout.failure
    if evidence.reward is None and not (failure and failure.call == "get_wrapper_attr()"):
        yield Violation("neither the environment nor a wrapper has a method compute_reward")


@rule(
    "GE004",
    "goal-space-mismatch",
    meaning="achieved_goal and desired_goal differ in shape or dtype, so neither can replace the other.",
    fix="use one space for both goals",
    implies=("GE104", "GE105", "GE113", "GE114", "GE206"),
    wrong="spaces.Dict(achieved_goal=spaces.Box(-1, 1, (3,)), desired_goal=spaces.Box(-1, 1, (2,)), ...)",
    right="spaces.Dict(achieved_goal=goal_space, desired_goal=goal_space, ...)",
)
def goal_space_mismatch(evidence: Evidence) -> Iterator[Violation]:
    """Both goal spaces must have the same shape and dtype."""
    goals = _both_goal_spaces(evidence)
    if goals is not None and _leaf_types(goals[0]) != _leaf_types(goals[1]):
        yield Violation(f"achieved_goal is {show(goals[0])}, but desired_goal is {show(goals[1])}")


@rule(
    "GE005",
    "outside-space",
    meaning="A part of an observation is not an element of its space: its dtype, shape or bounds are wrong.",
    fix="cast or clip the value, or declare its key, shape, dtype and bounds in the space",
    repair="CastObservation",
    passive=True,
    implies=("GE103",),
    wrong="spaces.Box(-1, 1, (2,), np.float32)  # step() returns np.array([0.5, 1.5])",
    right="spaces.Box(-2, 2, (2,), np.float32)  # step() returns np.array([0.5, 1.5], np.float32)",
)
def outside_space(evidence: Evidence) -> Iterator[Violation]:
    """Every part of an observation must be an element of its space."""
    if not isinstance(evidence.observation_space, spaces.Dict):
        return
    for record in evidence.rollout.records:
        for path, found in _outside(evidence.observation_space, record.observation, ()):
            yield replace(found, place=record.place, subject=path_name(path))


@rule(
    "GE006",
    "goal-bounds-differ",
    "warning",
    meaning="The goal spaces have different bounds, so an achieved goal can be an invalid desired goal.",
    fix="use one space for both goals",
    wrong="spaces.Dict(achieved_goal=spaces.Box(-2, 2, (2,)), desired_goal=spaces.Box(-1, 1, (2,)), ...)",
    right="spaces.Dict(achieved_goal=goal_space, desired_goal=goal_space, ...)",
)
def goal_bounds_differ(evidence: Evidence) -> Iterator[Violation]:
    """Both goal spaces must have the same bounds; GE004 reports different shapes and dtypes."""
    goals = _both_goal_spaces(evidence)
    if goals is not None and _leaf_types(goals[0]) == _leaf_types(goals[1]) and goals[0] != goals[1]:
        yield Violation(f"achieved_goal is {show(goals[0])}, but desired_goal is {show(goals[1])}")


@rule(
    "GE007",
    "spaces-rebuilt",
    "warning",
    meaning="reset() or step() replaces a space object, so that a seed set on the space is lost.",
    fix="create spaces in __init__ only",
    wrong="""
def reset(self, *, seed=None, options=None):
    self.action_space = spaces.Discrete(4)""",
    right="""
def __init__(self):
    self.action_space = spaces.Discrete(4)""",
)
def spaces_rebuilt(evidence: Evidence) -> Iterator[Violation]:
    """reset() and step() must not replace the space objects of the environment."""
    for name in evidence.rollout.spaces_replaced:
        yield Violation("reset() or step() replaced this attribute by another object", subject=name)


@rule(
    "GE008",
    "goals-reshaped",
    meaning="A wrapper changes the shape of goals, such as by stacking frames, but not compute_reward.",
    fix="apply the wrapper to `observation` only, or define compute_reward for the new goals in the wrapper",
    needs=REWARD_NEEDS,
    implies=(
        "GE101", "GE103", "GE104", "GE105", "GE106", "GE108", "GE110", "GE113", "GE114", "GE115", "GE119",
        "GE121", "GE202", "GE204", "GE205", "GE206", "GE207",
    ),
    wrong="env = gym.wrappers.FrameStackObservation(env, 2)  # stacks the goals too",
    right="""
class StackedObservation(gym.ObservationWrapper):
    def observation(self, observation):
        return {**observation, "observation": self._stack(observation["observation"])}""",
)  # fmt: skip
def goals_reshaped(evidence: Evidence) -> Iterator[Violation]:
    """A wrapper that changes the shape of goals must also define compute_reward for the new shape."""
    goals = _both_goal_spaces(evidence)
    own = own_goal_space(evidence.reward.function) if evidence.reward else None
    if evidence.reward is None or goals is None or own is None:
        return
    expected, found = own.shape, goals[0].shape
    is_wrong = any(
        result.shape != () or not close(reward_number(step.reward), result.number)
        for step, result in zip(evidence.steps, evidence.recomputed, strict=True)
    )
    if expected != found and is_wrong:
        owner = type(getattr(evidence.reward.function, "__self__", None)).__name__
        message = f"compute_reward of {owner} takes goals of shape {expected}, but a wrapper returns"
        yield Violation(f"{message} goals of shape {found}")


def _both_goal_spaces(evidence: Evidence) -> tuple[spaces.Space[Any], spaces.Space[Any]] | None:
    space = evidence.observation_space
    if not isinstance(space, spaces.Dict) or not {"achieved_goal", "desired_goal"} <= space.spaces.keys():
        return None
    return space["achieved_goal"], space["desired_goal"]


def _leaf_types(space: spaces.Space[Any]) -> Any:
    """Return the (shape, dtype) of each leaf of a space, in the same dicts and tuples as the space."""
    if isinstance(space, spaces.Dict):
        return {key: _leaf_types(subspace) for key, subspace in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(_leaf_types, space))
    return space.shape, space.dtype


def _outside(space: spaces.Space[Any], value: Any, path: Path) -> Iterator[tuple[Path, Violation]]:
    """Yield the path of each part of ``value`` that is not an element of its space, and a violation."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict):
            yield path, Violation(f"the value is {show(value)} instead of a dict", repair="")
            return
        for key in value.keys() - space.spaces.keys():
            yield (*path, key), Violation("the space does not have this key", repair="")
        for key, subspace in space.spaces.items():
            if key in value:
                yield from _outside(subspace, value[key], (*path, key))
    elif isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        yield from ((path, found) for found in _outside_array(space, value))
    elif not space.contains(value):
        message = f"{show(value)} of type {type_name(value)} is not an element of {show(space)}"
        yield path, Violation(message, repair="")


def _outside_array(space: Any, value: Any) -> Iterator[Violation]:
    if not isinstance(value, np.ndarray | np.generic):
        yield Violation(f"{show(value)} of type {type_name(value)} is not a {space.dtype} array")
    elif value.shape != space.shape:
        yield Violation(f"shape {value.shape} is not the shape {space.shape} of the space", repair="")
    elif not np.can_cast(value.dtype, space.dtype):
        yield Violation(f"dtype {value.dtype} does not fit the dtype {space.dtype} of the space")
    elif not isinstance(space, spaces.Box):
        if not space.contains(value):
            yield Violation(f"{show(value)} is not an element of {show(space)}", repair="")
    elif not (inside := (value >= space.low) & (value <= space.high)).all():  # False for NaN
        index = tuple(int(i) for i in np.argwhere(~inside)[0])
        bounds = f"[{space.low[index]}, {space.high[index]}]"
        found = show(np.asarray(value)[index])
        yield Violation(f"element {list(index)} is {found}, outside of the bounds {bounds}", repair="")
