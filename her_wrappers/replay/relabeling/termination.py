"""Termination after relabeling: whether a step would have ended the episode under its new goal.

An environment that ends on success ends somewhere else when the goal is another. Keeping the recorded flag
makes a relabeled success bootstrap beyond its end: the error most often reported of HER buffers
(Stable-Baselines3 issue 627, rlkit issue 96). Reasons to end that are not the goal's, such as a crash, hold
under every goal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from her_wrappers.goal_interface import batched_terminated
from her_wrappers.replay.relabeling.rewards import ask, require_tensor

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers.files.layout import Json
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.storage.infos import Infos

TerminationMode = Literal["recompute", "success", "keep", "never"]

Studies: TypeAlias = Literal["no steps", "those that terminated", "all steps"]

Bools: TypeAlias = NDArray[np.bool_]

Rewards: TypeAlias = Callable[[], NDArray[np.float32]]
"""Works out (B,) float32 rewards of steps, for the rules that need them."""


class Outcomes(NamedTuple):
    """What steps led to, under the goals that are looked at.

    Attributes:
        achieved_goal: Tree of (B, G) goals reached by the steps; read-only.
        desired_goal: Tree of (B, G) goals asked for; read-only.
        info: Infos of the steps, in the form that goal functions get.
        terminated: (B,) bool, as recorded.
        other_reason: (B,) bool, whether something else than the goal ended the episode.
    """

    achieved_goal: Any
    desired_goal: Any
    info: Infos
    terminated: Bools
    other_reason: Bools


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


class Keep:
    """The recorded flags."""

    kind = "keep"
    studies: Studies = "no steps"

    def ends(self, outcomes: Outcomes, rewards: NDArray[np.float32]) -> Bools:
        """Return what was recorded."""
        return outcomes.terminated

    def learn(self, outcomes: Outcomes, earned: Rewards, if_reached: Rewards) -> Bools:
        """Leave all reasons alone."""
        return np.zeros_like(outcomes.terminated)

    def forget(self) -> None:
        """There is nothing to forget."""

    def learned(self) -> Json:
        """Return that there is nothing."""
        return None

    def recall(self, learned: Json) -> None:
        """There is nothing to recall."""


class KeepByDefault(Keep):
    """The recorded flags, where nobody asked for them and nothing better is known."""

    kind = "keep by default"
    studies: Studies = "those that terminated"

    def learn(self, outcomes: Outcomes, earned: Rewards, if_reached: Rewards) -> Bools:
        """Warn once when a reached goal ends an episode: relabeled ones will not."""
        if (earned() == if_reached()).any():
            self.studies = "no steps"
            warnings.warn(
                "an episode terminated at its goal, but without compute_terminated relabeled successes "
                'keep the flags of steps that missed; pass termination="success" (sparse rewards), a '
                'function, or termination="keep" to keep them knowingly',
                stacklevel=2,
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
class Recompute:
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

    def forget(self) -> None:
        """There is nothing to forget."""

    def learned(self) -> Json:
        """Return that there is nothing."""
        return None

    def recall(self, learned: Json) -> None:
        """There is nothing to recall."""

    def _by_goal(self, outcomes: Outcomes) -> Bools:
        goals = outcomes.achieved_goal, outcomes.desired_goal
        ends = ask("compute_terminated", self.function, *goals, outcomes.info)
        if isinstance(outcomes.terminated, np.ndarray):
            return require_ends("compute_terminated", ends, len(outcomes.terminated))
        # That numbers are zeros and ones is not looked at: it would wait for the device.
        bools: Bools = require_tensor("compute_terminated", ends, outcomes.terminated, "bools").bool()
        return bools


def require_ends(name: str, ends: Any, count: int) -> Bools:
    """Return what a function answered for ``count`` goals as bools.

    Raises:
        ValueError: It returned another shape, or what is neither bools nor zeros and ones.
    """
    answer = np.asarray(ends)
    if answer.shape != (count,):
        raise ValueError(
            f"{name} must return shape {(count,)} for as many goals, got {answer.shape}; "
            "reduce over the goal's own axes only"
        )
    numbers = answer.dtype.kind in "biuf"
    bools: Bools = answer.astype(bool, copy=False) if numbers else np.zeros(count, bool)
    if not numbers or (answer != bools).any():
        raise ValueError(f"{name} must return bools, got {answer.dtype} such as {answer[0]!r}")
    return bools


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


def make_termination(
    choice: TerminationMode | GoalFunction | None,
    compute_terminated: GoalFunction | None,
    goal_space: spaces.Space[Any],
) -> Termination:
    """Make the rule that a buffer's ``termination=`` names.

    Args:
        choice: A mode, a function used like ``compute_terminated``, or None for the default: ``"recompute"``
            where there is a ``compute_terminated``, else ``"keep"``.
        compute_terminated: The environment's function, or None.
        goal_space: Space of one goal.

    Raises:
        ValueError: There is no such mode, or no function to recompute with.
    """
    if choice is None or choice == "recompute" or callable(choice):
        function = choice if callable(choice) else compute_terminated
        batched = batched_terminated(function, goal_space)
        if batched is not None:
            return Recompute(batched)
    return named_termination("recompute" if callable(choice) else choice)


def named_termination(choice: TerminationMode | None) -> Termination:
    """Make a rule that asks no function: None is for nobody having chosen one.

    Raises:
        ValueError: There is no such mode, or it is one that needs a function.
    """
    if choice == "recompute":
        raise ValueError(
            'termination="recompute" needs compute_terminated(achieved_goal, desired_goal, info); '
            "define it on the environment or pass such a function as termination="
        )
    if choice is None:
        return KeepByDefault()
    rules: dict[str, Callable[[], Termination]] = {"success": Success, "keep": Keep, "never": Never}
    if not isinstance(choice, str) or choice not in rules:
        modes = ", ".join(map(repr, get_args(TerminationMode)))
        raise ValueError(f"unknown termination {choice!r}; choose from {modes}, or pass a function")
    return rules[choice]()
