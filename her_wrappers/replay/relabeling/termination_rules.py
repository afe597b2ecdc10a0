"""Rules for terminations: each says which relabeled steps end the episode, and why recorded ones did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from her_wrappers.replay.relabeling.answers import ask, require_ends
from her_wrappers.user_warning import warn_user

if TYPE_CHECKING:
    from her_wrappers.files import Json
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.relabeling.outcomes import Bools, Outcomes

Studies: TypeAlias = Literal["no steps", "those that terminated", "all steps"]

Rewards: TypeAlias = Callable[[], NDArray[np.float32]]
"""Works out (B,) float32 rewards of steps, for the rules that need them."""


class Termination(Protocol):
    """A rule for the terminations of relabeled steps.

    Attributes:
        kind: Its name in files.
        studies: Which steps of new episodes it learns from.
    """

    @property
    def kind(self) -> str: ...  # noqa: D102 - an attribute, that need not be writable

    @property
    def studies(self) -> Studies: ...  # noqa: D102 - an attribute, that need not be writable

    def ends(self, outcomes: Outcomes, rewards: NDArray[np.float32]) -> Bools:
        """Whether each step ends the episode, (B,) bool, with these (B,) rewards for its goal."""

    def learn(self, outcomes: Outcomes, earned: Rewards, if_reached: Rewards) -> Bools:
        """Look at the steps that it studies before they are stored.

        Args:
            outcomes: They, as recorded; ``other_reason`` is not known yet.
            earned: What the reward function says that they earn.
            if_reached: What it says they would earn if what they achieved were the goal.

        Returns:
            (B,) bool, which terminations the goal does not explain.
        """

    def forget(self) -> None:
        """Forget what was learned."""

    def learned(self) -> Json:
        """Return what was learned."""

    def recall(self, learned: Json) -> None:
        """Take over what another rule of this kind learned."""


class Unlearned:
    """What there is to remember of rules that learn nothing."""

    def forget(self) -> None:
        """There is nothing to forget."""

    def learned(self) -> Json:
        """Return that there is nothing."""
        return None

    def recall(self, learned: Json) -> None:
        """There is nothing to recall."""


class Keep(Unlearned):
    """The recorded flags."""

    kind = "keep"
    studies: Studies = "no steps"

    def ends(self, outcomes: Outcomes, rewards: NDArray[np.float32]) -> Bools:
        """Return what was recorded."""
        return outcomes.terminated

    def learn(self, outcomes: Outcomes, earned: Rewards, if_reached: Rewards) -> Bools:
        """Leave all reasons alone."""
        return np.zeros_like(outcomes.terminated)


class KeepByDefault(Keep):
    """The recorded flags, where nobody asked for them and nothing better is known."""

    kind = "keep by default"
    studies: Studies = "those that terminated"

    def learn(self, outcomes: Outcomes, earned: Rewards, if_reached: Rewards) -> Bools:
        """Warn once when a reached goal ends an episode: relabeled ones will not."""
        if (earned() == if_reached()).any():
            self.studies = "no steps"
            warn_user(
                "an episode terminated at its goal, but without compute_terminated relabeled successes "
                'keep the flags of steps that missed; pass termination="success" (sparse rewards), a '
                'function, or termination="keep" to keep them knowingly'
            )
        return super().learn(outcomes, earned, if_reached)

    def learned(self) -> Json:
        """Return whether the warning has come."""
        return self.studies == "no steps"

    def recall(self, learned: Json) -> None:
        """Warn no second time."""
        self.studies = "no steps" if learned else "those that terminated"


class Never(Keep):
    """No relabeled step ends anything."""

    kind = "never"

    def ends(self, outcomes: Outcomes, rewards: NDArray[np.float32]) -> Bools:
        """Return all False."""
        return outcomes.terminated & False


@dataclass(frozen=True)
class Recompute(Unlearned):
    """What a function in the form of ``compute_terminated`` says, or another reason.

    Attributes:
        function: Terminations of a batch of goals.
    """

    function: GoalFunction
    kind: str = field(default="recompute", init=False)
    studies: Studies = field(default="those that terminated", init=False)

    def ends(self, outcomes: Outcomes, rewards: NDArray[np.float32]) -> Bools:
        """Ask the function; other reasons stay reasons."""
        return self._by_goal(outcomes) | outcomes.other_reason

    def learn(self, outcomes: Outcomes, earned: Rewards, if_reached: Rewards) -> Bools:
        """Blame something else where a step terminated and the function does not say so."""
        return outcomes.terminated & ~self._by_goal(outcomes)

    def _by_goal(self, outcomes: Outcomes) -> Bools:
        goals = outcomes.achieved_goal, outcomes.desired_goal
        ends = ask("compute_terminated", self.function, *goals, outcomes.info)
        return require_ends("compute_terminated", ends, outcomes.terminated)


@dataclass
class Success:
    """A relabeled step ends the episode if it earns what a reached goal earns, or for another reason.

    It takes rewards of two values, one of them for the reached goal; others are refused.
    """

    kind: str = field(default="success", init=False)
    studies: Studies = field(default="all steps", init=False)
    _reached: float = np.nan
    _missed: float = np.nan

    def ends(self, outcomes: Outcomes, rewards: NDArray[np.float32]) -> Bools:
        """Compare the rewards with that of a reached goal; other reasons stay reasons.

        Raises:
            ValueError: There is a third value. On a device nobody looks, since that would wait for it.
        """
        reached: Bools = rewards == self._reached
        if isinstance(rewards, np.ndarray):
            self._require_two_values(self._reached, rewards[~reached])
        return reached | outcomes.other_reason

    def learn(self, outcomes: Outcomes, earned: Rewards, if_reached: Rewards) -> Bools:
        """Find the reward of a reached goal, and blame something else where a miss terminated.

        Raises:
            ValueError: There are more than two values, or reached goals earn unlike rewards.
        """
        paid, best = earned(), if_reached()
        reward = best[0] if np.isnan(self._reached) else self._reached
        missed: Bools = paid != reward
        self._require_two_values(reward, np.append(paid[missed], best[best != reward]))
        self._reached = float(reward)
        return outcomes.terminated & missed

    def forget(self) -> None:
        """Forget both values."""
        self._reached = self._missed = np.nan

    def learned(self) -> Json:
        """Return both values, None where one is not known."""
        return [None if np.isnan(value) else value for value in (self._reached, self._missed)]

    def recall(self, learned: Json) -> None:
        """Take over both values."""
        self._reached, self._missed = (np.nan if value is None else float(value) for value in learned)

    def _require_two_values(self, reached: float, missed: NDArray[np.float32]) -> None:
        """Refuse a third value, and remember the second.

        Raises:
            ValueError: There is a third value.
        """
        if not len(missed):
            return
        second = missed[0] if np.isnan(self._missed) else self._missed
        if (missed != second).any():
            values = sorted({float(reached), float(second), *missed.tolist()})
            raise ValueError(
                'termination="success" needs rewards of two values, one for a reached goal and one for a '
                f"missed one, got {', '.join(f'{value + 0.0:g}' for value in values[:5])}; "
                "use a sparse reward or pass a function as termination="
            )
        self._missed = float(second)
