"""Rewards: the ways in which a user's function says what steps earn, and whether the environment agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from her_wrappers.arguments import require_function
from her_wrappers.replay.arrays import read_only
from her_wrappers.replay.batch import Batch
from her_wrappers.replay.relabeling.answers import ask, require_rewards
from her_wrappers.user_warning import warn_user

if TYPE_CHECKING:
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.relabeling.outcomes import Outcomes

BatchFunction: TypeAlias = Callable[[Batch], Any]
"""From transitions with the goals that they are to have to (B,) rewards."""

TOLERANCE = 1e-4
"""Relative and absolute; float32 observations of float64 states move dense rewards by less."""


class RewardRule(Protocol):
    """A way to ask a user's function what steps earn under the goals that they have.

    Attributes:
        name: Of the function.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - an attribute, that need not be writable

    def __call__(self, batch: Batch, outcomes: Outcomes) -> Any:
        """Return float32 rewards of a batch's first steps, which had these (C,) outcomes.

        Raises:
            ValueError: The function answers wrongly.
        """


@dataclass(frozen=True)
class GoalRewards:
    """Rewards that are functions of goals, as ``compute_reward`` is."""

    function: GoalFunction
    name: ClassVar[str] = "compute_reward"

    def __call__(self, batch: Batch, outcomes: Outcomes) -> Any:
        """Ask with the goals and infos."""
        return self.of(outcomes)

    def of(self, outcomes: Outcomes) -> Any:
        """Return what steps earn by their outcomes alone, float32.

        Raises:
            ValueError: The function answers wrongly.
        """
        goals = outcomes.achieved_goal, outcomes.desired_goal
        rewards = ask(self.name, self.function, *goals, outcomes.info)
        return require_rewards(self.name, rewards, outcomes.terminated)


@dataclass(frozen=True)
class BatchRewards:
    """Rewards that need the state or the action too."""

    function: BatchFunction
    name: ClassVar[str] = "reward_fn"

    def __call__(self, batch: Batch, outcomes: Outcomes) -> Any:
        """Ask with whole transitions."""
        count = len(outcomes.terminated)
        first = replace(batch.map(lambda array: read_only(array, count)), provenance=None)
        return require_rewards(self.name, ask(self.name, self.function, first), outcomes.terminated)


def make_reward_rule(
    compute_reward: GoalFunction | None, reward_fn: BatchFunction | None
) -> RewardRule | None:
    """Make the rule for rewards of a buffer's ``compute_reward=`` or ``reward_fn=``; None without both.

    Raises:
        TypeError: One is no function.
        ValueError: There are both.
    """
    if compute_reward is not None and reward_fn is not None:
        raise ValueError("rewards must be computed in one way, got compute_reward and reward_fn; pass one")
    if reward_fn is not None:
        require_function("reward_fn", reward_fn, "batch")
        return BatchRewards(reward_fn)
    if compute_reward is not None:
        require_function("compute_reward", compute_reward)
        return GoalRewards(compute_reward)
    return None


def rewards_agree(recorded: np.ndarray, computed: np.ndarray) -> bool:
    """Whether (T,) rewards as the environment paid them are those of ``compute_reward``."""
    return bool(np.allclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE))


def warn_of_other_rewards(name: str, recorded: np.ndarray, computed: np.ndarray, t: np.ndarray) -> None:
    """Warn of the first step that was not paid what the reward function says; ``t`` counts in episodes."""
    i = np.flatnonzero(~np.isclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE))[0]
    warn_user(
        f"step {t[i]} of an episode was paid {recorded[i]:g}, but {name} gives {computed[i]:g}, and "
        f"so it will for relabeled steps; likely a reward wrapper or a cost outside of {name}, or a "
        "reward that needs the info"
    )
