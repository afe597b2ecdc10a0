"""Terminations of relabeled steps: whether a step would have ended the episode under its new goal.

An environment that terminates on success terminates at another step if the goal is another one. If the
recorded flag is kept, the target of a relabeled success bootstraps beyond the end of the episode, a known
problem of HER buffers (Stable-Baselines3 issue 627, rlkit issue 96). Terminations that are independent of the
goal, such as a crash, hold under every goal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from her_wrappers.goal_functions import batched_terminated
from her_wrappers.replay.rewards import call_user_function, validate_terminations

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers.files import Json
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.rewards import Bools, GoalTransition

TerminationMode = Literal["recompute", "success", "keep", "never"]

Inspects: TypeAlias = Literal["no steps", "terminated steps", "all steps"]

Rewards: TypeAlias = Callable[[], NDArray[np.float32]]
"""Computes (B,) float32 rewards of steps, for the rules that need them."""


class Fitted(NamedTuple):
    """Result of `TerminationRule.fit`.

    Attributes:
        rule: The rule after the inspection of the new episodes.
        goal_independent: (B,) bool, which steps terminated independently of their goal.
        warning: A warning for the user, or None.
    """

    rule: TerminationRule
    goal_independent: Bools
    warning: str | None = None


class TerminationRule:
    """The rule ``termination="keep"``: relabeled steps keep the recorded flag. Base class of all rules.

    Rules are immutable: `fit` returns another one, which replaces this one once the episodes are stored.

    Attributes:
        kind: Name of the rule in files.
        inspects: Steps of new episodes that `fit` needs.
    """

    kind: ClassVar[str] = "keep"
    inspects: ClassVar[Inspects] = "no steps"

    def terminations(self, transition: GoalTransition, rewards: NDArray[np.float32]) -> Bools:
        """Return whether each step ends the episode, (B,) bool, given the (B,) rewards under its goal."""
        return transition.terminated

    def fit(self, transition: GoalTransition, rewards_fn: Rewards, self_goal_rewards_fn: Rewards) -> Fitted:
        """Inspect steps before they are stored.

        Args:
            transition: The steps as recorded; ``goal_independent_termination`` is not known yet.
            rewards_fn: Computes the rewards under the recorded goals.
            self_goal_rewards_fn: Computes the rewards under the achieved goals as desired goals.
        """
        return Fitted(self, np.zeros_like(transition.terminated))

    def state_dict(self) -> Json:
        """Return the state that `fit` found in episodes, as JSON."""
        return None

    def with_state(self, state: Json) -> TerminationRule:
        """Return the rule with the state that `state_dict` returned; the initial rule if ``state`` is None.

        Raises:
            TypeError: A part of ``state`` has a wrong type for this rule.
            ValueError: A part of ``state`` has a wrong value or length for this rule.
        """
        return self


@dataclass(frozen=True)
class KeepByDefault(TerminationRule):
    """Terminations as recorded, if the user chose no rule and the environment has no ``compute_terminated``.

    Attributes:
        has_warned: Whether the user was warned that relabeled successes do not terminate.
    """

    kind: ClassVar[str] = "keep by default"
    has_warned: bool = False

    @property
    def inspects(self) -> Inspects:  # type: ignore[override] # nothing is left to find after the warning
        """Steps of new episodes that `fit` needs."""
        return "no steps" if self.has_warned else "terminated steps"

    def fit(self, transition: GoalTransition, rewards_fn: Rewards, self_goal_rewards_fn: Rewards) -> Fitted:
        """Return a warning if an episode terminated at its goal.

        This is so if the last step has the same reward under its desired goal as under its achieved goal.
        """
        no_steps = np.zeros_like(transition.terminated)
        if not (rewards_fn() == self_goal_rewards_fn()).any():
            return Fitted(self, no_steps)
        warning = (
            "an episode terminated at its goal, but relabeled steps that achieve theirs do not terminate; "
            'pass termination="success" (sparse rewards), "recompute" (with compute_terminated), '
            'a function, or "keep" to keep the recorded terminations without this warning'
        )
        return Fitted(replace(self, has_warned=True), no_steps, warning)

    def state_dict(self) -> Json:
        """Return whether the user was warned."""
        return self.has_warned

    def with_state(self, state: Json) -> TerminationRule:
        """Return the rule; it does not warn again if the saved rule has warned."""
        return replace(self, has_warned=bool(state))


@dataclass(frozen=True)
class Never(TerminationRule):
    """No relabeled step terminates."""

    kind: ClassVar[str] = "never"

    def terminations(self, transition: GoalTransition, rewards: NDArray[np.float32]) -> Bools:
        """Return False for all steps."""
        return transition.terminated & False


@dataclass(frozen=True)
class Recompute(TerminationRule):
    """Terminations by a function like ``compute_terminated``, and those that are independent of the goal.

    Attributes:
        function: Terminations of a batch of goals.
    """

    function: GoalFunction
    kind: ClassVar[str] = "recompute"
    inspects: ClassVar[Inspects] = "terminated steps"

    def terminations(self, transition: GoalTransition, rewards: NDArray[np.float32]) -> Bools:
        """Return the result of the function, or True if the step terminated independently of its goal."""
        return self._by_goal(transition) | transition.goal_independent_termination

    def fit(self, transition: GoalTransition, rewards_fn: Rewards, self_goal_rewards_fn: Rewards) -> Fitted:
        """Find the goal-independent terminations: those for which the function returns False."""
        return Fitted(self, transition.terminated & ~self._by_goal(transition))

    def _by_goal(self, transition: GoalTransition) -> Bools:
        achieved_goal, desired_goal, info, terminated, _ = transition
        result = call_user_function("compute_terminated", self.function, achieved_goal, desired_goal, info)
        return validate_terminations("compute_terminated", result, terminated)


@dataclass(frozen=True)
class Success(TerminationRule):
    """A relabeled step terminates if its reward is that of an achieved goal.

    A step that terminated independently of its goal also terminates.

    Rewards must have two values, one of them for an achieved goal; a third value is an error.

    Attributes:
        achieved_reward: Reward of an achieved goal; NaN before the first episode.
        missed_reward: Reward of a goal that is not achieved; NaN if it is not known yet.
    """

    kind: ClassVar[str] = "success"
    inspects: ClassVar[Inspects] = "all steps"
    achieved_reward: float = np.nan
    missed_reward: float = np.nan

    def terminations(self, transition: GoalTransition, rewards: NDArray[np.float32]) -> Bools:
        """Compare the rewards with that of an achieved goal.

        Raises:
            ValueError: The rewards have a third value. Tensors are not checked, since that would wait for the
                device.
        """
        achieved: Bools = rewards == self.achieved_reward
        if isinstance(rewards, np.ndarray):
            self._missed_reward(self.achieved_reward, rewards[~achieved])
        return achieved | transition.goal_independent_termination

    def fit(self, transition: GoalTransition, rewards_fn: Rewards, self_goal_rewards_fn: Rewards) -> Fitted:
        """Find the reward of an achieved goal, and the terminations of steps that did not achieve their goal.

        Raises:
            ValueError: The rewards have more than two values, or achieved goals have different rewards.
        """
        rewards, self_goal_rewards = rewards_fn(), self_goal_rewards_fn()
        achieved_reward = self_goal_rewards[0] if np.isnan(self.achieved_reward) else self.achieved_reward
        missed: Bools = rewards != achieved_reward
        others = np.append(rewards[missed], self_goal_rewards[self_goal_rewards != achieved_reward])
        missed_reward = self._missed_reward(achieved_reward, others)
        rule = Success(float(achieved_reward), float(missed_reward))
        return Fitted(rule, transition.terminated & missed)

    def state_dict(self) -> Json:
        """Return both rewards, with None for a reward that is not known."""
        return [None if np.isnan(value) else value for value in (self.achieved_reward, self.missed_reward)]

    def with_state(self, state: Json) -> TerminationRule:
        """Return the rule with both saved rewards."""
        if state is None:
            return Success()
        achieved_reward, missed_reward = (np.nan if value is None else float(value) for value in state)
        return Success(achieved_reward, missed_reward)

    def _missed_reward(self, achieved_reward: float, missed: NDArray[np.float32]) -> float:
        """Return the reward of goals that are not achieved, after checking that it is the same for all."""
        if not len(missed):
            return self.missed_reward
        second = missed[0] if np.isnan(self.missed_reward) else self.missed_reward
        if (missed != second).any():
            values = sorted({float(achieved_reward), float(second), *missed.tolist()})
            raise ValueError(
                'termination="success" needs rewards of two values, one for an achieved goal and one for a '
                f"missed goal, got {', '.join(f'{value + 0.0:g}' for value in values[:5])}; "
                "use a sparse reward or pass a function as termination="
            )
        return float(second)


def termination_rule(
    choice: TerminationMode | GoalFunction | None,
    compute_terminated: GoalFunction | None,
    goal_space: spaces.Space[Any],
) -> TerminationRule:
    """Return the rule for the argument ``termination`` of a buffer.

    Args:
        choice: A mode, a function used like ``compute_terminated``, or None for the default: ``"recompute"``
            if there is a ``compute_terminated``, else ``"keep"``.
        compute_terminated: The environment's function, or None.
        goal_space: Space of one goal.

    Raises:
        TypeError: A function cannot be called with three arguments.
        ValueError: The mode is unknown, the mode needs a function that is missing, or the function returns a
            wrong shape.
    """
    if choice is None or choice == "recompute" or callable(choice):
        function = choice if callable(choice) else compute_terminated
        batched = batched_terminated(function, goal_space)
        if batched is not None:
            return Recompute(batched)
    return named_rule("recompute" if callable(choice) else choice)


def named_rule(choice: TerminationMode | None) -> TerminationRule:
    """Return a rule that calls no function; ``choice`` is None if the user chose no mode.

    Raises:
        ValueError: The mode is unknown, or needs a function.
    """
    if choice == "recompute":
        raise ValueError(
            'termination="recompute" needs compute_terminated(achieved_goal, desired_goal, info); '
            "define it on the environment or pass such a function as termination="
        )
    require_mode(choice)
    if choice is None:
        return KeepByDefault()
    rules: dict[str, TerminationRule] = {"success": Success(), "keep": TerminationRule(), "never": Never()}
    return rules[choice]


def require_mode(choice: TerminationMode | GoalFunction | None) -> None:
    """Raise ValueError unless ``choice`` is a mode, a function or None."""
    modes = get_args(TerminationMode)
    if choice is not None and choice not in modes and not callable(choice):
        names = ", ".join(map(repr, modes))
        raise ValueError(f"unknown termination {choice!r}; choose from {names}, or pass a function")
