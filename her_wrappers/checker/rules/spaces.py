"""Rules GE0xx: the environment runs, has the spaces of a goal environment, and returns elements of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.checker.comparing import close, show, type_name
from her_wrappers.checker.goal_calls import reward_number
from her_wrappers.checker.lab import REWARD, REWARD_NEEDS, Lab, rule
from her_wrappers.data.spaces import leaf_spaces
from her_wrappers.data.trees import Path, path_name
from her_wrappers.goals.interface import OBSERVATION_KEYS, own_goal_space
from her_wrappers.rules import Violation
from her_wrappers.support.error_texts import describe, raised_at


@rule(
    "GE000",
    is_last=True,
    fix="read the exception; correct the line that raised it, or the values that the method returned",
    wrong="return observation, reward, done, {}  # by step()",
    right="return observation, reward, terminated, truncated, {}",
)
def environment_raises(lab: Lab) -> Iterator[Violation]:
    """reset, step or compute_reward raised an exception, or a space attribute is not a space."""
    if failure := lab.first_failure:
        texts = (f"{failure.call} raised {describe(failure.error)}", failure.hint)
        yield Violation("; ".join(filter(None, texts)), failure.place)
    errors = [result.error for result in lab.pair_results(REWARD)]
    if errors and errors[0] and all(errors) and lab.info_form(REWARD) is None:
        texts = (f"each call for one goal raised {describe(errors[0])}", raised_at(errors[0]))
        yield Violation("; ".join(filter(None, texts)), subject="compute_reward")


@rule(
    "GE001",
    fix="use spaces.Dict with observation, achieved_goal and desired_goal",
    repair="AsGoalEnv",
    wrong="observation_space = spaces.Box(-1, 1, (6,))",
    right="spaces.Dict(observation=..., achieved_goal=goal_space, desired_goal=goal_space)",
)
def not_dict_observation(lab: Lab) -> Iterator[Violation]:
    """The observation space is not a Dict, so there is no goal to relabel."""
    if not isinstance(lab.observation_space, spaces.Dict):
        keys = ", ".join(map(repr, OBSERVATION_KEYS))
        space = show(lab.observation_space)
        yield Violation(f"the observation space is {space}, not a Dict with the keys {keys}")


@rule(
    "GE002",
    fix="add the key to the space and to the observations of reset() and step()",
    repair="AsGoalEnv",
    wrong='return {"observation": position, "desired_goal": self.goal.copy()}',
    right='return {"observation": position, "achieved_goal": position.copy(), ...}',
)
def missing_goal_key(lab: Lab) -> Iterator[Violation]:
    """The observation space or an observation lacks a goal key."""
    space = lab.observation_space
    if not isinstance(space, spaces.Dict):
        return
    for key in OBSERVATION_KEYS:
        if key not in space.spaces:
            found = ", ".join(map(repr, space.spaces))
            yield Violation(f"the observation space has only the keys {found}", subject=key)
            continue
        for record in lab.rollout.records:
            if isinstance(record.observation, dict) and key not in record.observation:
                found = ", ".join(map(repr, record.observation))
                yield Violation(f"the observation has only the keys {found}", record.place, key)


@rule(
    "GE003",
    fix="define compute_reward(achieved_goal, desired_goal, info) on the environment",
    repair="AsGoalEnv",
    needs=("goals",),
    wrong="reward = -np.linalg.norm(self.position - self.goal)  # in step() only",
    right="reward = self.compute_reward(self.position, self.goal, {})",
)
def no_compute_reward(lab: Lab) -> Iterator[Violation]:
    """get_wrapper_attr finds compute_reward neither in the environment nor in a wrapper."""
    failure = lab.rollout.failure
    if REWARD not in lab.functions and not (failure and failure.call == "get_wrapper_attr()"):
        yield Violation("neither the environment nor a wrapper has a method compute_reward")


@rule(
    "GE004",
    fix="use one space for both goals",
    wrong="spaces.Dict(achieved_goal=spaces.Box(-1, 1, (3,)), desired_goal=spaces.Box(-1, 1, (2,)), ...)",
    right="spaces.Dict(achieved_goal=goal_space, desired_goal=goal_space, ...)",
)
def goal_space_mismatch(lab: Lab) -> Iterator[Violation]:
    """achieved_goal and desired_goal differ in shape or dtype, so neither can replace the other."""
    goals = _both_goal_spaces(lab)
    if goals is not None and _leaf_types(goals[0]) != _leaf_types(goals[1]):
        yield Violation(f"achieved_goal is {show(goals[0])}, but desired_goal is {show(goals[1])}")


@rule(
    "GE005",
    fix="cast or clip the value, or declare its key, shape, dtype and bounds in the space",
    repair="CastObservation",
    passive=True,
    wrong="spaces.Box(-1, 1, (2,), np.float32)  # step() returns np.array([0.5, 1.5])",
    right="spaces.Box(-2, 2, (2,), np.float32)  # step() returns np.array([0.5, 1.5], np.float32)",
)
def outside_space(lab: Lab) -> Iterator[Violation]:
    """An observation lacks a part; a part is outside its space (dtype, shape, bounds); a goal is infinite."""
    if not isinstance(lab.observation_space, spaces.Dict):
        return
    for record in lab.rollout.records:
        for path, found in _outside(lab.observation_space, record.observation, ()):
            yield replace(found, place=record.place, subject=path_name(path))


@rule(
    "GE006",
    severity="warning",
    fix="use one space for both goals",
    wrong="spaces.Dict(achieved_goal=spaces.Box(-2, 2, (2,)), desired_goal=spaces.Box(-1, 1, (2,)), ...)",
    right="spaces.Dict(achieved_goal=goal_space, desired_goal=goal_space, ...)",
)
def goal_bounds_differ(lab: Lab) -> Iterator[Violation]:
    """The goal spaces have different bounds, so an achieved goal can be an invalid desired goal."""
    goals = _both_goal_spaces(lab)
    if goals is not None and _leaf_types(goals[0]) == _leaf_types(goals[1]) and goals[0] != goals[1]:
        yield Violation(f"achieved_goal is {show(goals[0])}, but desired_goal is {show(goals[1])}")


@rule(
    "GE007",
    severity="warning",
    fix="create spaces in __init__ only",
    wrong="self.action_space = spaces.Discrete(4)  # in reset()",
    right="self.action_space = spaces.Discrete(4)  # in __init__()",
)
def spaces_rebuilt(lab: Lab) -> Iterator[Violation]:
    """reset() or step() replaces a space object, so that a seed set on the space is lost."""
    for name in lab.rollout.spaces_replaced:
        yield Violation("reset() or step() replaced this attribute by another object", subject=name)


@rule(
    "GE008",
    fix="apply the wrapper to `observation` only, or define compute_reward for the new goals in the wrapper",
    needs=REWARD_NEEDS,
    wrong="env = gym.wrappers.FrameStackObservation(env, 2)  # stacks the goals too",
    right='return {**observation, "observation": self._stack(observation["observation"])}',
)
def goals_reshaped(lab: Lab) -> Iterator[Violation]:
    """A wrapper changes the shape of goals, such as by stacking frames, but not compute_reward."""
    goals, function = _both_goal_spaces(lab), lab.functions[REWARD]
    own = own_goal_space(function)
    if goals is None or own is None or own.shape == goals[0].shape:
        return
    results = zip(lab.steps, lab.step_results(REWARD), strict=True)
    if any(each.shape != () or not close(reward_number(step.reward), each.number) for step, each in results):
        owner = type(getattr(function, "__self__", None)).__name__
        message = f"compute_reward of {owner} takes goals of shape {own.shape}, but a wrapper returns"
        yield Violation(f"{message} goals of shape {goals[0].shape}")


@rule(
    "GE009",
    fix="use Box, Discrete, MultiBinary or MultiDiscrete, such as an array padded to the largest size",
    wrong="spaces.Dict(observation=spaces.Sequence(spaces.Box(-1, 1, (2,))), ...)",
    right="spaces.Dict(observation=spaces.Box(-1, 1, (10, 2)), ...)  # zeros follow the last element",
)
def no_fixed_shape(lab: Lab) -> Iterator[Violation]:
    """Recorders and buffers reject spaces without a fixed shape: Text, Sequence, Graph and OneOf."""
    space = lab.observation_space
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {}
    if lab.env is not None:
        parts["action_space"] = lab.env.single_action_space if lab.vector_run else lab.env.action_space
    for key, part in parts.items():
        try:
            leaf_spaces(part, (key,))
        except TypeError as error:
            yield Violation(str(error), subject=key)


def _both_goal_spaces(lab: Lab) -> tuple[spaces.Space[Any], spaces.Space[Any]] | None:
    space = lab.observation_space
    if not isinstance(space, spaces.Dict) or not {"achieved_goal", "desired_goal"} <= space.spaces.keys():
        return None
    return space["achieved_goal"], space["desired_goal"]


def _leaf_types(space: spaces.Space[Any]) -> Any:
    """Return (shape, dtype) of a space; for a Dict or Tuple space, a dict or tuple of those of its parts."""
    if isinstance(space, spaces.Dict):
        return {key: _leaf_types(subspace) for key, subspace in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(_leaf_types, space))
    return space.shape, space.dtype


def _outside(space: spaces.Space[Any], value: Any, path: Path) -> Iterator[tuple[Path, Violation]]:
    """Yield (path, violation) for each part of ``value`` that is not an element of its space."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict):
            yield path, Violation(f"the value is {show(value)} instead of a dict", repair="")
            return
        for key in value.keys() - space.spaces.keys():
            yield (*path, key), Violation("the space does not have this key", repair="")
        for key, subspace in space.spaces.items():
            if key in value:
                yield from _outside(subspace, value[key], (*path, key))
            elif path or key not in OBSERVATION_KEYS:  # GE002 reports missing goal keys
                yield (*path, key), Violation("the observation lacks this key", repair="")
    elif isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        found = list(_outside_array(space, value))
        is_goal = path[:1] in {("achieved_goal",), ("desired_goal",)}
        if is_goal and not found and not np.isfinite(value).all():
            found = [Violation(f"{show(value)} is not finite: recorders and buffers reject it", repair="")]
        yield from ((path, each) for each in found)
    elif isinstance(space, spaces.Tuple) and isinstance(value, list | tuple) and len(value) == len(space):
        for i, (subspace, part) in enumerate(zip(space, value, strict=True)):
            yield from _outside(subspace, part, (*path, i))
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
