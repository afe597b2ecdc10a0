"""Relabeler: rewards and terminations of steps under new desired goals, computed by the user's functions.

If an environment terminates on success, a new goal changes which step terminates (Stable-Baselines3 issue
627, rlkit issue 96). So the rules ``"recompute"`` and ``"success"`` keep only terminations that are
independent of the goal, such as a crash.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from her_wrappers.data.trees import NUMBERS, map_tree, take_rows
from her_wrappers.goals.functions import GoalFunction, are_trivial, batched_terminated
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.goals.success_flag import FLAG_NAMES
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.batch import Batch
from her_wrappers.support.arguments import require_function, require_result

Bools: TypeAlias = NDArray[np.bool_]

BatchFunction: TypeAlias = Callable[[Batch], Any]  # from transitions with new goals to (B,) rewards
TerminationMode = Literal["recompute", "success", "keep", "never"]

GoalArguments: TypeAlias = tuple[Any, Any, Sequence[Mapping[str, Any]]]  # of goal functions, for B steps


def remedy_for_info(key: str) -> str:
    """Return the end of an error message: how to supply the info ``key`` that a goal function reads."""
    if key in FLAG_NAMES:
        reason = f"because {key!r} is valid only for the recorded goal"
        return f"compute success from achieved_goal and desired_goal instead, {reason}"
    return (
        f"pass info_keys=[{key!r}] to the buffer (Stable-Baselines3: copy_info_dict=True; `her train`: "
        f"--info-keys {key})"
    )


def reads_unstored_info(name: str, key: str) -> str:
    """Return the error message for a goal function that reads an info which the buffer does not store."""
    return f"{name} reads info {key!r}, which this buffer does not store; {remedy_for_info(key)}"


def follows_recorded(name: str, flags: Sequence[str]) -> str:
    """Return the warning about a function ``name`` whose results are the recorded ones for any goal."""
    if name == "reward_fn":
        return "reward_fn returns batch.rewards, which are recorded; compute them from the goals of the batch"
    return f"{name} reads info {flags[0]!r}, so relabeled rewards are wrong; {remedy_for_info(flags[0])}"


class TerminationRule(NamedTuple):
    """How the terminations of relabeled steps are set."""

    mode: TerminationMode
    compute_terminated: GoalFunction | None  # only for the mode "recompute"
    is_chosen: bool  # if False ("keep" by default), a warning appears if the mode is wrong
    name: str = "compute_terminated"  # of the function in messages


class SeenRewards(NamedTuple):
    """The rewards of achieved and of missed goals, for the mode "success"; None if no step had them."""

    achieved: float | None = None
    missed: float | None = None


class Relabeler:
    """Calls the reward function and applies the termination rule, for many steps at once."""

    def __init__(
        self,
        compute_reward: GoalFunction | None,
        reward_fn: BatchFunction | None,
        rule: TerminationRule,
        info_keys: Sequence[str],
        gamma: float,
    ) -> None:
        self.reward_name, self._reward = require_reward(compute_reward, reward_fn)
        self.rule, self._info_keys, self._gamma = rule, info_keys, gamma
        self.seen = SeenRewards()  # of the stored steps

    def relabel(
        self, batch: Batch, infos: Mapping[str, Any], goal_independent: Any, count: int
    ) -> tuple[NDArray[np.float32], Bools]:
        """Return the rewards and terminations of the first ``count`` rows of ``batch`` for new goals."""
        arguments = self._arguments(batch.next_observations, infos, count)
        rewards = self._rewards(arguments, batch)
        mode, terminated = self.rule.mode, batch.terminations[:count]
        if mode == "recompute":
            terminated = self._terminated(arguments) | goal_independent[:count]
        elif mode == "success":
            achieved = rewards == self.seen.achieved
            _require_two_rewards(self.seen, rewards[~achieved])
            terminated = achieved | goal_independent[:count]
        elif mode == "never":
            terminated = terminated & False
        return rewards, terminated

    def are_trivial(self, batch: Batch, infos: Mapping[str, Any]) -> Bools:
        """Return (n,) bool, whether the new goal of each of the n relabeled rows of ``batch`` is trivial."""
        count = int(np.count_nonzero(batch.relabeled))

        def rewards(achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
            after = batch.next_observations | {"achieved_goal": achieved_goal}
            changed = replace(batch, next_observations=after)
            return self._rewards(self._arguments(after, infos, count), changed).copy()

        achieved_goal, goal = (batch.observations[key] for key in OBSERVATION_KEYS[1:])
        trivial: Bools = are_trivial(rewards, achieved_goal, goal, infos)
        return trivial

    def _arguments(self, after: Mapping[str, Any], infos: Mapping[str, Any], count: int) -> GoalArguments:
        """Return the arguments of the goal functions for the first ``count`` states ``after`` steps."""
        achieved, desired = read_only(after["achieved_goal"], count), read_only(after["desired_goal"], count)
        if not self._info_keys:
            return achieved, desired, [{}] * count
        rows = (read_only(infos[key], count) for key in self._info_keys)
        dicts = [dict(zip(self._info_keys, row, strict=True)) for row in zip(*rows, strict=True)]
        return achieved, desired, dicts

    def _rewards(self, arguments: GoalArguments, batch: Batch | None) -> NDArray[np.float32]:
        """Return the (B,) float32 rewards of B steps; ``reward_fn`` gets the first B rows of ``batch``."""
        name, count = self.reward_name, len(arguments[2])
        if name == "reward_fn" and batch is not None:
            first = replace(batch.map(lambda values: read_only(values, count)), provenance=None)
            rewards = self._call(name, self._reward, (first,), count)
        else:
            rewards = self._call(name, self._reward, arguments, count)
        with np.errstate(over="ignore"):  # too large values become infinite, and are rejected
            array: NDArray[np.float32] = rewards.astype(np.float32, copy=False)
        if np.count_nonzero(np.isfinite(array)) < count:  # half the time of `all`
            i = np.flatnonzero(~np.isfinite(array))[0]
            got = f"{rewards[i]} at row {i} of the batch"
            raise ValueError(f"{name} must return numbers that are finite as float32, got {got}")
        return array

    def _terminated(self, arguments: GoalArguments) -> Bools:
        """Call ``compute_terminated``, and return its (B,) results as bools."""
        name, count = self.rule.name, len(arguments[2])
        result = self._call(name, self.rule.compute_terminated, arguments, count, "bools")
        bools: Bools = result.astype(np.bool_, copy=False)
        if bools is not result and np.count_nonzero(result == bools) < count:
            got = f"the value {result[(result != bools).argmax()]} of dtype {result.dtype}"
            raise ValueError(f"{name} must return bools, got {got}")
        return bools

    def _call(
        self, name: str, function: Any, arguments: tuple[Any, ...], count: int, expected: str = "numbers"
    ) -> Any:
        """Call a user's function and validate its result; ``name`` and ``expected`` are for the messages."""
        is_goal_function = len(arguments) == 3  # reward_fn gets a batch, without infos
        try:
            result = function(*arguments)
        except Exception as error:
            key = error.args[0] if isinstance(error, KeyError) and is_goal_function else None
            if isinstance(key, str) and key not in self._info_keys:
                text = f"{reads_unstored_info(name, key)}; or another dict lacks {key!r}"
                raise ValueError(text) from error
            infos = " with info, a list of one dict per step" if is_goal_function else ""
            error.add_note(
                f"{name} raised this for a batch of steps{infos}; the stored transitions are unchanged"
            )
            raise
        require_result(name, result, f"{expected} of shape {(count,)}")
        result = np.asarray(result)
        if result.shape != (count,) or result.dtype.kind not in NUMBERS:
            fix = f"convert the result to {expected}"
            if result.shape != (count,):
                fix = "reduce over the goal's own axes only, such as axis=-1"
            raise ValueError(
                f"{name} must return {expected} of shape {(count,)}, one for each step, got dtype "
                f"{result.dtype} and shape {result.shape}; {fix}"
            )
        return result

    # --- recorded steps ---------------------------------------------------------------------------

    def find_goal_independent(self, episodes: Episodes) -> tuple[Bools, SeenRewards]:
        """Return whether each episode terminated independently of its goal, and the `SeenRewards` so far."""
        last, terminated, seen = episodes.ends[1:] - 1, episodes.terminated, self.seen
        goal_independent = np.zeros(len(terminated), np.bool_)
        if self.rule.mode == "success":
            rewards = self.rewards_of(episodes, "desired_goal")
            self_goal_rewards = self.rewards_of(episodes, "achieved_goal")
            if seen.achieved is None:
                seen = seen._replace(achieved=float(self_goal_rewards[0]))
            is_missed = rewards != seen.achieved
            others = np.append(rewards[is_missed], self_goal_rewards[self_goal_rewards != seen.achieved])
            seen = _require_two_rewards(seen, others)
            goal_independent = terminated & is_missed[last]
        elif self.rule.mode == "recompute" and terminated.any():
            goal_independent[terminated] = ~self.terminated_by_goal(episodes, last[terminated])
        return goal_independent, seen

    def rewards_of(
        self, episodes: Episodes, goal_key: str, steps: np.ndarray | None = None
    ) -> NDArray[np.float32]:
        """Return the rewards of recorded steps for the desired goals ``next_observations[goal_key]``."""
        steps = np.arange(len(episodes.rewards)) if steps is None else steps
        is_batch = self.reward_name == "reward_fn"
        batch = recorded_batch(episodes, steps, goal_key, self._gamma) if is_batch else None
        rewards = self._rewards(self._recorded(episodes, steps, goal_key), batch)
        return rewards.copy()  # a function may return the same array at every call

    def terminated_by_goal(self, episodes: Episodes, steps: np.ndarray) -> Bools:
        """Return the results of ``compute_terminated`` for the recorded steps with indices ``steps``."""
        return self._terminated(self._recorded(episodes, steps))

    def _recorded(
        self, episodes: Episodes, steps: np.ndarray, goal_key: str = "desired_goal"
    ) -> GoalArguments:
        """Return the arguments of the goal functions for recorded steps; see `rewards_of`."""
        rows, observations = episodes.state_of_step[steps] + 1, episodes.observations
        keys = {"achieved_goal": "achieved_goal", "desired_goal": goal_key}
        after = {key: take_rows(observations[source], rows) for key, source in keys.items()}
        infos = {key: episodes.infos[key][steps] for key in self._info_keys}
        return self._arguments(after, infos, len(steps))


def recorded_batch(episodes: Episodes, steps: np.ndarray, goal_key: str, gamma: float) -> Batch:
    """Return copies of recorded steps as a batch, with the desired goals that `rewards_of` describes."""
    before = episodes.state_of_step[steps]
    observations = take_rows(episodes.observations, before)
    next_observations = take_rows(episodes.observations, before + 1)
    if goal_key != "desired_goal":
        for each in (observations, next_observations):
            each["desired_goal"] = take_rows(episodes.observations[goal_key], before + 1)
    return Batch(
        observations,
        take_rows(episodes.actions, steps),
        episodes.rewards[steps].astype(np.float32),
        next_observations,
        flags_of_steps(episodes, episodes.terminated)[steps],
        flags_of_steps(episodes, episodes.truncated)[steps],
        np.full(len(steps), gamma, np.float32),
        np.ones(len(steps), np.float32),
        np.ones(len(steps), np.bool_),
        steps,
    )


def flags_of_steps(episodes: Episodes, flags: np.ndarray) -> Bools:
    """Return (T,) bool: the flag of an episode at its last step, and False at its other steps."""
    of_steps = np.zeros(len(episodes.rewards), np.bool_)
    of_steps[episodes.ends[1:] - 1] = flags
    return of_steps


def read_only(tree: Any, count: int) -> Any:
    """Return read-only views of the first ``count`` rows of a tree of arrays."""
    if type(tree) is not np.ndarray:
        return map_tree(lambda leaf: read_only(leaf, count), tree)
    rows = tree[:count]
    rows.setflags(write=False)
    return rows


def _require_two_rewards(seen: SeenRewards, others: np.ndarray) -> SeenRewards:
    """Return ``seen`` with the reward of missed goals; raise ValueError unless ``others`` all equal it."""
    if not len(others):
        return seen
    missed = float(others[0]) if seen.missed is None else seen.missed
    if (others != missed).any():
        values = sorted({float(seen.achieved or 0), missed, *others.tolist()})
        raise ValueError(
            'termination="success" needs rewards with only two values, one for an achieved goal and one for '
            f"a missed goal, got the values {', '.join(f'{value + 0.0:g}' for value in values[:5])}; use a "
            "sparse reward, or pass a function as termination="
        )
    return seen._replace(missed=missed)


def require_reward(compute_reward: Any, reward_fn: Any) -> tuple[str, Any]:
    """Return the name of the given function and the function; raise TypeError for wrong parameters."""
    name, function, takes = "compute_reward", compute_reward, "(achieved_goal, desired_goal, info)"
    if reward_fn is not None:
        name, function, takes = "reward_fn", reward_fn, "one Batch"
    require_function(name, function, takes)
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # some builtin functions have no signature
        return name, function
    try:
        signature.bind(*takes.split(","))
    except TypeError as error:
        fix = "correct its parameters"
        if next(iter(signature.parameters), "") == "self":
            fix = f"pass the bound method, such as env.unwrapped.{function.__name__}"
        elif name == "reward_fn" and len(signature.parameters) == 3:
            fix = "pass it as compute_reward="
        raise TypeError(f"{name} must be a function of {takes}, got {function}: {error}; {fix}") from error
    return name, function


def require_termination(choice: object) -> None:
    """Raise ValueError unless ``choice`` is a mode, a function or None."""
    modes = get_args(TerminationMode)
    if choice is not None and choice not in modes and not callable(choice):
        names = ", ".join(map(repr, modes))
        raise ValueError(f"unknown termination {choice!r}; choose from {names}, or pass a function")


def resolve_termination(
    choice: TerminationMode | GoalFunction | None,
    compute_terminated: GoalFunction | None,
    goal_space: spaces.Space[Any] | None = None,
) -> TerminationRule:
    """Return the rule for the argument ``termination``; for ``goal_space``, see `batched_terminated`."""
    require_termination(choice)
    if choice is None or choice == "recompute" or callable(choice):
        function = choice if callable(choice) else compute_terminated
        name = "termination" if callable(choice) else "compute_terminated"
        if goal_space is not None:
            function = batched_terminated(function, goal_space, name=name)
        if function is not None:
            return TerminationRule("recompute", function, is_chosen=True, name=name)
        if choice is not None:
            raise ValueError(
                'termination="recompute" needs compute_terminated(achieved_goal, desired_goal, info), but '
                "there is no such function; define it in the environment, or pass it as termination="
            )
    return TerminationRule("keep" if choice is None else choice, None, is_chosen=choice is not None)
