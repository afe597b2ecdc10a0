"""Answers: what a user's function must return when it is asked about many steps at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from her_wrappers.replay.relabeling.outcomes import Bools


def ask(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function for a batch; what it raises is told to be of its making."""
    try:
        return function(*arguments)
    except Exception as error:
        error.add_note(
            f"{name} raised this when asked about a batch of steps; what is stored is as it was before"
        )
        raise


def require_rewards(name: str, rewards: Any, like: Any) -> Any:
    """Return what a reward function answered, float32.

    Of tensors, whether the numbers are finite is not looked at, since that would wait for the device.

    Args:
        name: Of the function.
        rewards: What it answered.
        like: (C,) array, or tensor where the answer must be, with a row for each step.

    Raises:
        ValueError: It returned another shape, what is no numbers, or what is not finite.
    """
    if isinstance(like, np.ndarray):
        return _require_numbers(name, rewards, len(like))
    return _require_tensor(name, rewards, like, "numbers").detach().float()


def require_ends(name: str, ends: Any, like: Any) -> Bools:
    """Return what a function answered as to which steps end the episode, as bools.

    Of tensors, that numbers are zeros and ones is not looked at, since that would wait for the device.

    Args:
        name: Of the function.
        ends: What it answered.
        like: (C,) array, or tensor where the answer must be, with a row for each step.

    Raises:
        ValueError: It returned another shape, or what is neither bools nor zeros and ones.
    """
    if isinstance(like, np.ndarray):
        return _require_bools(name, ends, len(like))
    bools: Bools = _require_tensor(name, ends, like, "bools").bool()
    return bools


def _require_numbers(name: str, rewards: Any, count: int) -> np.ndarray:
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


def _require_bools(name: str, ends: Any, count: int) -> Bools:
    """Return what a function answered for ``count`` goals as bools.

    Raises:
        ValueError: It returned another shape, or what is neither bools nor zeros and ones.
    """
    answer = np.asarray(ends)
    if answer.shape != (count,):
        raise ValueError(
            f"{name} must return shape ({count},) for {count} goals, got {answer.shape}; "
            "reduce over the goal's own axes only"
        )
    numbers = answer.dtype.kind in "biuf"
    bools: Bools = answer.astype(bool, copy=False) if numbers else np.zeros(count, bool)
    if not numbers or (answer != bools).any():
        raise ValueError(f"{name} must return bools, got {answer.dtype} such as {answer[0]!r}")
    return bools


def _require_tensor(name: str, answer: Any, like: Any, what: str) -> Any:
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
