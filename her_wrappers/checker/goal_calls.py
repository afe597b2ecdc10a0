"""Calls of compute_reward and compute_terminated: the pairs of goals that are passed, and the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from her_wrappers.checker.comparing import close, identical, show, to_arrays
from her_wrappers.checker.records import StepRecord, goals_of, spread
from her_wrappers.data.trees import Tree, concatenate_trees, copy_tree, leaf_arrays, map_tree
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.support.error_texts import describe

ARGUMENTS = ("achieved_goal", "desired_goal", "info")
# Forms of the info argument of a batch, the most common first. Stable-Baselines3 passes a list of empty dicts
# or, with ``copy_info_dict``, an array of the infos.
INFO_FORMS = (
    "a list of the steps' infos",
    "a list of empty dicts",
    "an array of the steps' infos",
    "an empty dict",
    "None",
)
PAIR_STEPS = 12  # largest number of steps whose achieved goals are in relabeled pairs
EXTREME_STEPS = 500  # largest number of steps whose goals are searched for extreme values
NUM_THRESHOLDS = 3  # most steps with relabeled pairs on both sides of the success threshold


# Goals are trees: most goals are arrays; the goals of FrankaKitchen are dicts.


def stack(goals: Sequence[Tree]) -> Tree:
    """Return a batch of N goals of the same structure: an (N, ...) array, or a dict of (N, ...) arrays."""
    return concatenate_trees("goals", [map_tree(lambda leaf: np.asarray(leaf)[None], goal) for goal in goals])


def flat(goal: Tree) -> np.ndarray:
    """Return all values of a goal as a float64 array of shape (G,)."""
    return np.concatenate([leaf.astype(np.float64).ravel() for leaf in leaves(goal)])


def distance(achieved: Tree, desired: Tree) -> float:
    """Return the Euclidean distance of two goals."""
    return float(np.linalg.norm(flat(achieved) - flat(desired)))


def leaves(goal: Tree) -> list[np.ndarray]:
    """Return the arrays that a goal consists of; a goal can be a dict of arrays."""
    return [np.asarray(leaf) for leaf in leaf_arrays(goal)]


def between(start: Tree, end: Tree, fraction: float) -> Tree:
    """Return the goal at ``fraction`` of the way from ``start`` to ``end``, in the dtype of ``start``."""
    if isinstance(start, dict):
        return {key: between(start[key], end[key], fraction) for key in start}
    if isinstance(start, tuple):
        return tuple(between(*ends, fraction) for ends in zip(start, end, strict=True))
    start = np.asarray(start)
    return (start + fraction * (np.asarray(end) - start)).astype(start.dtype)


def reward_number(reward: Any) -> float:
    """Return the reward of a step as a float; NaN if the reward is not a number."""
    if isinstance(reward, float):
        return reward
    try:
        return float(np.asarray(reward, dtype=np.float64).reshape(-1)[0])
    except (IndexError, TypeError, ValueError):
        return np.nan


@dataclass(frozen=True, eq=False, slots=True)
class CallResult:
    """Result of one call of ``compute_reward`` or ``compute_terminated``."""

    value: Any  # returned value; None if the call raised
    error: Exception | None = None  # exception that the call raised, or None
    mutated_argument: str = ""  # name of the first argument that the call changed, or an empty text

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the value; None if the value is None or contains lists of different lengths."""
        try:
            return None if self.value is None else tuple(np.shape(self.value))
        except ValueError:
            return None

    @property
    def numbers(self) -> np.ndarray | None:
        """The value as a float64 array; None if the call raised or the value does not consist of numbers."""
        try:
            return None if self.value is None else np.asarray(self.value, dtype=np.float64)
        except (TypeError, ValueError):
            return None

    @property
    def number(self) -> float | None:
        """The value as a float; None unless the value consists of a single number."""
        if isinstance(self.value, float):
            return float(self.value)
        numbers = self.numbers
        return float(numbers.reshape(-1)[0]) if numbers is not None and numbers.size == 1 else None

    @property
    def is_finite(self) -> bool:
        """Whether the value consists of finite numbers; also True if the call raised an exception."""
        numbers = self.numbers
        return self.error is not None or (numbers is not None and bool(np.isfinite(numbers).all()))

    @property
    def error_text(self) -> str:
        """The error as one line of text; empty if the call did not raise."""
        return describe(self.error) if self.error is not None else ""

    @property
    def outcome(self) -> str:
        """Error or value of the call, for messages: ``"raises ..."`` or ``"returns ..."``."""
        return f"raises {self.error_text}" if self.error is not None else f"returns {show(self.value)}"

    @property
    def shape_outcome(self) -> str:
        """Like `outcome`, with the shape of the value instead of the value itself."""
        return f"raises {self.error_text}" if self.error is not None else f"returns shape {self.shape}"

    def agrees_with(self, other: CallResult) -> bool:
        """Whether the values of two results are equal up to rounding, or both have the same error."""
        if self.numbers is None or other.numbers is None:
            return self.numbers is other.numbers and self.error_text == other.error_text
        return close(self.numbers[()], other.numbers[()])  # faster for scalars


GoalCall: TypeAlias = Callable[[Any, Any, Any], CallResult]
"""Function ``(achieved_goal, desired_goal, info)`` that calls a goal function and returns the result."""


@dataclass(frozen=True, eq=False, slots=True)
class Pair:
    """Arguments of one call of a goal function: an achieved goal, a desired goal and an info."""

    achieved: Any  # achieved goal of a step
    desired: Any  # desired goal, recorded or relabeled
    info: Any
    is_self: bool = False  # whether the desired goal is the achieved goal of the same step


def call_function(
    function: GoalFunction, achieved: Any, desired: Any, info: Any, *, copies: bool = True
) -> CallResult:
    """Call a goal function; with ``copies``, pass copies of the goals, to see whether they are changed."""
    arguments = (achieved, desired, info)
    passed = copy_tree(arguments) if copies else (achieved, desired, copy_tree(info))
    try:
        value = to_arrays(function(*passed))
    except Exception as error:
        return CallResult(None, error)
    value = value.copy() if isinstance(value, np.ndarray) else value  # a later call may reuse the array
    changed = ""
    if copies:
        named = zip(ARGUMENTS, arguments, passed, strict=True)
        changed = next((name for name, old, new in named if not identical(old, new)), "")
    return CallResult(value, None, changed)


def info_argument(pairs: Sequence[Pair], form: str) -> Any:
    """Return the info argument for a batch of pairs in ``form``, one of `INFO_FORMS`."""
    array = np.empty(len(pairs), dtype=object)
    array[:] = [pair.info for pair in pairs]
    infos: list[Any] = [[pair.info for pair in pairs], [{} for _ in pairs], array, {}, None]
    return infos[INFO_FORMS.index(form)]


def relabeled_pairs(steps: Sequence[StepRecord], reward: GoalCall, rng: np.random.Generator) -> list[Pair]:
    """Return pairs of achieved goals with themselves, goals of other steps, and goals near the threshold."""
    sources = spread(steps, PAIR_STEPS)
    others = [steps[i] for i in rng.integers(len(steps), size=len(sources))]
    pairs = []
    for step, other in zip(sources, others, strict=True):
        achieved = step.observation["achieved_goal"]
        pairs += [
            Pair(achieved, achieved, step.info, is_self=True),
            Pair(achieved, other.observation["desired_goal"], step.info),
            Pair(achieved, other.observation["achieved_goal"], step.info),
            Pair(achieved, step.observation["desired_goal"], step.info),
        ]
    near: list[Pair] = []  # just before and just after the success threshold
    for step in sources:
        achieved, desired = goals_of(step)
        kinds = {leaf.dtype.kind for leaf in leaves(achieved) + leaves(desired)}
        if kinds == {"f"} and len(near) < 2 * NUM_THRESHOLDS:  # only float goals have goals between them
            fraction = threshold(achieved, desired, step.info, reward)
            sides = (0.999 * fraction, 1.001 * fraction) if fraction else ()
            near += [Pair(achieved, between(achieved, desired, side), step.info) for side in sides]
    mixed = pairs[4:] + near
    return pairs[:4] + [mixed[i] for i in rng.permutation(len(mixed))]  # the smallest batch has a success


def extreme_pairs(steps: Sequence[StepRecord]) -> list[Pair]:
    """Return the pairs (low, high) and (high, low) of the elementwise minimum and maximum of all goals."""
    observations = [step.observation for step in spread(steps, EXTREME_STEPS)]
    goals = stack([observation[key] for observation in observations for key in ARGUMENTS[:2]])
    low, high = (map_tree(partial(reduce, axis=0), goals) for reduce in (np.min, np.max))
    info = steps[0].info
    return [Pair(low, high, info), Pair(high, low, info)]


def threshold(achieved: Any, desired: Any, info: Any, reward: GoalCall) -> float | None:
    """Return the fraction of the way to the desired goal at which the reward changes, or None without one."""

    def at(fraction: float) -> float | None:
        return reward(achieved, between(achieved, desired, fraction), info).number

    near, far = at(0.0), at(1.0)
    if near is None or far is None or close(near, far):
        return None
    low, high = 0.0, 1.0  # bisection, for rewards of exactly two values on the way
    for _ in range(20):
        middle = (low + high) / 2
        number = at(middle)
        if number is None or not (close(number, near) or close(number, far)):
            return None
        low, high = (middle, high) if close(number, near) else (low, middle)
    return high


def depends_on_goal(steps: Sequence[StepRecord], values: np.ndarray) -> bool:
    """Whether ``values``, an info of each of n steps as (n,) numbers, depends on the desired goal."""
    desired = np.stack([flat(step.observation["desired_goal"]) for step in steps])
    states = [step.before for step in steps], [step.observation for step in steps]
    goals = [np.stack([flat(state["achieved_goal"]) for state in group]) for group in states]
    distances = [np.linalg.norm(each - desired, order, axis=1) for each in goals for order in (1, 2, np.inf)]
    if len(np.unique(values)) == 2:  # does a threshold of a distance separate them?
        is_split = any(np.count_nonzero(np.diff(values[each.argsort()])) == 1 for each in distances)
        return is_split and 5 <= (values == values[0]).sum() <= len(values) - 5  # else a coincidence

    def fits(*columns: np.ndarray) -> bool:
        if len(steps) < 10 * len(columns):
            return False
        features = np.stack([np.ones(len(steps)), *columns], axis=1)
        errors = features @ np.linalg.lstsq(features, values, rcond=None)[0] - values
        return bool(np.abs(errors).max() < 1e-3 * values.std())

    if not np.ptp(desired, axis=0).any() or fits(*goals[0].T, *goals[1].T):
        return False  # a function of achieved goals alone
    return fits(*distances, *map(np.square, distances), *desired.T)
