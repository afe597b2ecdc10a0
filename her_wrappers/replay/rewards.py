"""Rewards of relabeled steps: one call of ``compute_reward`` for a batch, and what its answer must be."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.infos import Infos

TOLERANCE = 1e-4
"""Relative and absolute; float32 observations of float64 states move dense rewards by less."""


def batch_rewards(
    function: GoalFunction, achieved_goal: Any, desired_goal: Any, infos: Infos, count: int
) -> np.ndarray:
    """Return the rewards of ``count`` pairs of goals, (count,) float32.

    The function gets its goals read-only: one that writes to them would change what is stored.

    Raises:
        ValueError: The function returns another shape, what is no numbers, or what is not finite.
    """
    rewards = np.asarray(function(read_only(achieved_goal), read_only(desired_goal), infos))
    if rewards.shape != (count,) or rewards.dtype.kind not in "fiub":
        raise ValueError(
            f"compute_reward must return numbers of shape ({count},) for {count} goals, "
            f"got {rewards.dtype} of shape {rewards.shape}; reduce over the goal's own axes only"
        )
    rewards = rewards.astype(np.float32, copy=False)
    if not np.isfinite(rewards).all():
        i = np.flatnonzero(~np.isfinite(rewards))[0]
        raise ValueError(f"compute_reward must return finite numbers, got {rewards[i]} at row {i}")
    return rewards


def read_only(goals: Any) -> Any:
    """Return views of a tree of arrays that cannot be written to."""

    def protect(leaf: np.ndarray) -> np.ndarray:
        view = leaf.view()
        view.flags.writeable = False
        return view

    return map_tree(protect, goals)


def rewards_agree(recorded: np.ndarray, computed: np.ndarray) -> bool:
    """Whether (T,) rewards as the environment paid them are those of ``compute_reward``."""
    return bool(np.allclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE))


def warn_of_other_rewards(recorded: np.ndarray, computed: np.ndarray) -> None:
    """Warn of the first step that was not paid what ``compute_reward`` says."""
    t = np.flatnonzero(~np.isclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE))[0]
    warnings.warn(
        f"step {t} of an episode was paid {recorded[t]:g}, but compute_reward gives {computed[t]:g}, and so "
        "it will for relabeled steps; likely a reward wrapper or a cost outside of compute_reward, or a "
        "reward that needs the info",
        stacklevel=4,
    )
