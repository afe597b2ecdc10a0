"""The user's functions, called for many steps at once, with validated results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from her_wrappers.arguments import require_function
from her_wrappers.replay.batch import Batch
from her_wrappers.trees import FLOAT32_OVERFLOW, NUMBERS, map_tree

if TYPE_CHECKING:
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.recording.episodes import Episodes

Bools: TypeAlias = NDArray[np.bool_]

BatchFunction: TypeAlias = Callable[[Batch], Any]
"""From a batch of transitions with their new goals to (B,) rewards."""

Infos: TypeAlias = Sequence[Mapping[str, Any]] | Mapping[str, np.ndarray]
"""Infos in the form that goal functions get: a list of dicts, or one dict of (B, ...) arrays."""

TOLERANCE = 1e-4
"""Relative and absolute tolerance of comparisons, which allows for observations rounded to float32."""


class GoalTransition(NamedTuple):
    """B steps with given desired goals: the arguments of goal functions, and the recorded terminations.

    Attributes:
        achieved_goal: (B, G) goals achieved after the steps, an array or a tree of arrays; read-only.
        desired_goal: (B, G) desired goals in the same form; read-only.
        info: Infos of the steps, in the form that goal functions get.
        terminated: (B,) bool, as recorded.
        goal_independent_termination: (B,) bool, whether the step terminated independently of the goal.
    """

    achieved_goal: Any
    desired_goal: Any
    info: Infos
    terminated: Bools
    goal_independent_termination: Bools


@dataclass(frozen=True)
class RewardFunction:
    """The user's reward function: ``compute_reward`` of goals, or ``reward_fn`` of whole transitions.

    Attributes:
        name: ``"compute_reward"`` or ``"reward_fn"``.
        function: The function.
        takes_batch: Whether the function takes whole transitions.
    """

    name: str
    function: Callable[..., Any]
    takes_batch: bool = field(init=False)

    @classmethod
    def of(
        cls, compute_reward: GoalFunction | None, reward_fn: BatchFunction | None
    ) -> RewardFunction | None:
        """Return the given function; None if neither was given.

        Raises:
            TypeError: ``compute_reward`` or ``reward_fn`` is not callable.
            ValueError: Both were given.
        """
        if compute_reward is not None and reward_fn is not None:
            raise ValueError(
                "rewards must be computed in one way, got compute_reward and reward_fn; pass one"
            )
        if reward_fn is not None:
            require_function("reward_fn", reward_fn, "batch")
            return cls("reward_fn", reward_fn)
        if compute_reward is not None:
            require_function("compute_reward", compute_reward)
            return cls("compute_reward", compute_reward)
        return None

    def __post_init__(self) -> None:
        object.__setattr__(self, "takes_batch", self.name == "reward_fn")

    def __call__(self, transition: GoalTransition, batch: Batch | None) -> Any:
        """Return the (B,) float32 rewards of steps.

        Args:
            transition: The B steps.
            batch: Batch whose first B rows are the same steps, with the same desired goals; needed if
                ``takes_batch``.

        Raises:
            ValueError: The function returns another shape, or values that are not finite numbers. Tensors may
                have infinite values and NaN.
        """
        if self.takes_batch and batch is not None:
            count = len(transition.terminated)
            first = replace(batch.map(lambda array: read_only(array, count)), provenance=None)
            rewards = call_user_function(self.name, self.function, first)
        else:
            achieved_goal, desired_goal, info, _, _ = transition
            rewards = call_user_function(self.name, self.function, achieved_goal, desired_goal, info)
        if isinstance(transition.terminated, np.ndarray):
            return _validate_rewards(self.name, rewards, len(transition.terminated))
        # Whether tensors are finite is not checked, since that would wait for the device.
        return _validate_tensor(self.name, rewards, transition.terminated, "numbers").detach().float()


def require_finite_rewards(episodes: Episodes) -> None:
    """Check the recorded rewards of episodes.

    Raises:
        ValueError: A reward is not finite as float32.
    """
    rewards = episodes.rewards
    if float(np.abs(rewards).max()) < FLOAT32_OVERFLOW:  # False for NaN
        return
    step = np.flatnonzero(~(np.abs(rewards.astype(np.longdouble)) < FLOAT32_OVERFLOW))[0]
    episode = int(np.searchsorted(episodes.ends, step, side="right")) - 1
    where = f"step {step - episodes.ends[episode]}" + f" of episode {episode}" * (len(episodes) > 1)
    raise ValueError(f"rewards must be finite as float32, got {rewards[step]} at {where}")


def info_rows(
    columns: Mapping[str, np.ndarray] | None, keys: Sequence[str], info_format: str, count: int
) -> Infos:
    """Return the infos of the first ``count`` steps in the form that goal functions get.

    Args:
        columns: (B, ...) arrays by key, or records with such fields; None if no infos are stored.
        keys: The infos that are stored.
        info_format: ``"list"`` of dicts, or one dict of ``"columns"``.
        count: Number of steps.
    """
    if columns is None:
        return {} if info_format == "columns" else [{}] * count
    rows = {key: read_only(columns[key], count) for key in keys}
    if info_format == "columns":
        return rows
    return [dict(zip(keys, row, strict=True)) for row in zip(*rows.values(), strict=True)]


def read_only(tree: Any, count: int) -> Any:
    """Return read-only views of the first ``count`` rows of a tree of arrays; tensors stay writable."""
    if isinstance(tree, np.ndarray):
        view = tree[:count]
        view.setflags(write=False)
        return view
    if isinstance(tree, dict | tuple):
        return map_tree(lambda leaf: read_only(leaf, count), tree)
    return tree[:count]


def call_user_function(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function; if it raises an exception, add a note with the function's name."""
    try:
        return function(*arguments)
    except Exception as error:
        error.add_note(
            f"{name} raised this when called for a batch of steps; the stored transitions are unchanged"
        )
        raise


def validate_terminations(name: str, terminations: Any, like: Any) -> Bools:
    """Return the result of a function like ``compute_terminated`` as (B,) bools.

    The values of tensors are not checked, since a check would wait for the device.

    Args:
        name: Name of the function.
        terminations: Result of the function.
        like: (B,) array, or a (B,) tensor on the device of the steps if the result must be a tensor.

    Raises:
        ValueError: The result has another shape, or is neither bools nor zeros and ones.
    """
    if not isinstance(like, np.ndarray):
        bools: Bools = _validate_tensor(name, terminations, like, "bools").bool()
        return bools
    count, array = len(like), np.asarray(terminations)
    if array.shape != (count,):
        raise ValueError(
            f"{name} must return shape ({count},) for {count} goals, got {array.shape}; "
            "reduce over the goal's own axes only"
        )
    is_number = array.dtype.kind in NUMBERS
    bools = array.astype(bool, copy=False) if is_number else np.zeros(count, bool)
    if not is_number or (array != bools).any():
        wrong = array[(array != bools).argmax()] if is_number else array[0]
        raise ValueError(f"{name} must return bools, got {array.dtype} such as {wrong!r}")
    return bools


def rewards_agree(recorded: np.ndarray, computed: np.ndarray) -> bool:
    """Whether (T,) recorded rewards equal the computed ones up to rounding."""
    return bool(np.allclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE))


def disagreement(name: str, recorded: np.ndarray, computed: np.ndarray, t: np.ndarray) -> str:
    """Return the warning for the first recorded reward that differs; ``t`` is the step in its episode."""
    i = np.flatnonzero(~np.isclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE))[0]
    return (
        f"step {t[i]} of an episode has the reward {recorded[i]:g}, but {name} returns {computed[i]:g}, as "
        f"it will for relabeled steps; likely causes are a reward wrapper, a cost outside of {name}, or a "
        "reward that depends on the info"
    )


def _validate_rewards(name: str, rewards: Any, count: int) -> NDArray[np.float32]:
    array = np.asarray(rewards)
    if array.shape != (count,) or array.dtype.kind not in NUMBERS:
        raise ValueError(
            f"{name} must return numbers of shape ({count},) for {count} steps, "
            f"got {array.dtype} of shape {array.shape}; reduce over the goal's own axes only"
        )
    if array.dtype == np.float32:
        numbers = array
    else:
        with np.errstate(over="ignore"):  # too large values become infinite, and are rejected
            numbers = array.astype(np.float32)
    # Counting takes half as long as `all`; a product, which is not finite either, warns where it overflows.
    if np.count_nonzero(np.isfinite(numbers)) < count:
        i = np.flatnonzero(~np.isfinite(numbers))[0]
        raise ValueError(f"{name} must return finite numbers, got {numbers[i]} at row {i}")
    return numbers


def _validate_tensor(name: str, result: Any, like: Any, expected: str) -> Any:
    """Return a tensor that has the shape and the device of ``like``."""
    if not isinstance(result, type(like)):
        got = type(result).__name__
        raise ValueError(f"{name} must return a tensor for tensors, got {got}")  # noqa: TRY004 - a wrong result
    if result.shape != like.shape or result.dtype.is_complex or result.device != like.device:
        raise ValueError(
            f"{name} must return {expected} of shape {tuple(like.shape)} on {like.device}, got "
            f"{result.dtype} of shape {tuple(result.shape)} on {result.device}; reduce over the goal's own "
            "axes only"
        )
    return result
