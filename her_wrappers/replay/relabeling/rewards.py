"""Rewards of relabeled steps: what the user's function must answer, and whether the environment agrees."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERANCE = 1e-4
"""Relative and absolute; float32 observations of float64 states move dense rewards by less."""


def ask(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function for a batch; what it raises is told to be of its making."""
    try:
        return function(*arguments)
    except Exception as error:
        error.add_note(
            f"{name} raised this when asked about a batch of steps; what is stored is as it was before"
        )
        raise


def require_rewards(name: str, rewards: Any, count: int) -> np.ndarray:
    """Return what a reward function answered for ``count`` steps, (count,) float32.

    Raises:
        ValueError: It returned another shape, what is no numbers, or what is not finite.
    """
    answer = np.asarray(rewards)
    if answer.shape != (count,) or answer.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must return numbers of shape ({count},) for {count} steps, "
            f"got {answer.dtype} of shape {answer.shape}; reduce over the goal's own axes only"
        )
    if answer.dtype == np.float32:
        numbers = answer
    else:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            numbers = answer.astype(np.float32)
    # To count takes half as long as `all`; a product, which is not finite either, warns where it overflows.
    if np.count_nonzero(np.isfinite(numbers)) < count:
        i = np.flatnonzero(~np.isfinite(numbers))[0]
        raise ValueError(f"{name} must return finite numbers, got {numbers[i]} at row {i}")
    return numbers


def require_reward_tensor(name: str, rewards: Any, like: Any) -> Any:
    """Return what a reward function answered for tensors, as float32.

    Whether the numbers are finite is not looked at, since that would wait for the device.

    Args:
        name: Of the function.
        rewards: What it answered.
        like: A tensor where and in which shape the answer must be.

    Raises:
        ValueError: It is no tensor of numbers there, or of another shape.
    """
    return require_tensor(name, rewards, like, "numbers").detach().float()


def require_tensor(name: str, answer: Any, like: Any, what: str) -> Any:
    """Return a tensor that a function answered with, if it has the shape of another, and is where that is.

    Raises:
        ValueError: It is or has not.
    """
    if not isinstance(answer, type(like)):
        got = type(answer).__name__
        raise ValueError(f"{name} must return a tensor for tensors, got {got}")  # noqa: TRY004 - a wrong answer
    if answer.shape != like.shape or answer.dtype.is_complex or answer.device != like.device:
        raise ValueError(
            f"{name} must return {what} of shape {tuple(like.shape)} on {like.device}, got {answer.dtype} "
            f"of shape {tuple(answer.shape)} on {answer.device}; reduce over the goal's own axes only"
        )
    return answer


def read_only(tree: Any, count: int | None = None) -> Any:
    """Return views of a tree of arrays, or of their first ``count`` rows, that cannot be written to.

    Of tensors as well, which cannot be protected.
    """
    if isinstance(tree, np.ndarray):
        view = tree[:count]
        view.setflags(write=False)
        return view
    if isinstance(tree, dict | tuple):
        return map_tree(lambda leaf: read_only(leaf, count), tree)
    return tree[:count]


def rewards_agree(recorded: np.ndarray, computed: np.ndarray) -> bool:
    """Whether (T,) rewards as the environment paid them are those of ``compute_reward``."""
    return bool(np.allclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE))


def warn_of_other_rewards(name: str, recorded: np.ndarray, computed: np.ndarray, t: np.ndarray) -> None:
    """Warn of the first step that was not paid what the reward function says; ``t`` counts in episodes."""
    i = np.flatnonzero(~np.isclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE))[0]
    warnings.warn(
        f"step {t[i]} of an episode was paid {recorded[i]:g}, but {name} gives {computed[i]:g}, and "
        f"so it will for relabeled steps; likely a reward wrapper or a cost outside of {name}, or a "
        "reward that needs the info",
        stacklevel=4,
    )
