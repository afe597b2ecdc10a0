"""Rewards of relabeled steps: one call of ``compute_reward`` for a batch, and what its answer must be."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.infos import Infos

TOLERANCE = 1e-4
"""Relative and absolute; float32 observations of float64 states move dense rewards by less."""


def batch_rewards(
    function: GoalFunction, achieved_goal: Any, desired_goal: Any, infos: Infos, count: int
) -> np.ndarray:
    """Return the rewards of ``count`` pairs of goals, (count,) float32.

    Raises:
        ValueError: The function returns another shape, or what is no numbers.
    """
    rewards = np.asarray(function(achieved_goal, desired_goal, infos))
    if rewards.shape != (count,) or rewards.dtype.kind not in "fiub":
        raise ValueError(
            f"compute_reward must return numbers of shape ({count},) for {count} goals, "
            f"got {rewards.dtype} of shape {rewards.shape}; reduce over the goal's own axes only"
        )
    return rewards.astype(np.float32, copy=False)


def warn_of_other_rewards(recorded: np.ndarray, computed: np.ndarray) -> bool:
    """Warn where an episode was not paid what ``compute_reward`` says, and return whether that is so.

    Args:
        recorded: (T,) rewards as the environment paid them.
        computed: (T,) rewards by ``compute_reward``.
    """
    differ = np.flatnonzero(~np.isclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE))
    if not differ.size:
        return False
    t = differ[0]
    warnings.warn(
        f"step {t} of an episode was paid {recorded[t]:g}, but compute_reward gives {computed[t]:g}, and so "
        "it will for relabeled steps; likely a reward wrapper or a cost outside of compute_reward, or a "
        "reward that needs the info",
        stacklevel=3,
    )
    return True
