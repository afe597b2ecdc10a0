"""Relabeling: what steps earn under goals that replace theirs, and whether they end the episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from her_wrappers.arguments import require_count
from her_wrappers.goal_interface import LazilyVectorizedGoalFunction, LoopedGoalFunction
from her_wrappers.replay.arrays import filled_like, read_only
from her_wrappers.replay.relabeling.outcomes import Outcomes
from her_wrappers.replay.relabeling.rewards import rewards_agree, warn_of_other_rewards
from her_wrappers.replay.relabeling.stand_ins import MissingFunctions, NoRelabeling
from her_wrappers.replay.relabeling.termination_rules import Recompute

if TYPE_CHECKING:
    from collections.abc import Callable

    from her_wrappers.files.layout import Json
    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.relabeling.rewards import RewardRule
    from her_wrappers.replay.relabeling.termination_rules import Termination
    from her_wrappers.replay.storage.encoded_episodes import EncodedEpisodes
    from her_wrappers.replay.storage.step_layout import StepLayout
    from her_wrappers.replay.storage.steps import Steps

CHECKED_EPISODES = 10
"""So many first episodes are compared with the reward function."""


class Relabeling:
    """The functions of goals, asked for many steps at once.

    Args:
        layout: Of the steps.
        rewards: The rule for rewards.
        termination: The rule for terminations.
        gamma: Discount factor of the batches that the rule for rewards is asked with.
    """

    def __init__(
        self,
        layout: StepLayout,
        rewards: RewardRule,
        termination: Termination,
        gamma: float,
    ) -> None:
        self._layout = layout
        self._rewards = rewards
        self._termination = termination
        self._gamma = gamma
        self.forget()

    def forget(self) -> None:
        """Forget what was learned from episodes."""
        self._termination.forget()
        self._episodes_to_check = CHECKED_EPISODES

    def learned(self) -> Json:
        """Return what was learned from episodes."""
        return {
            "rule": self._termination.kind,
            "values": self._termination.learned(),
            "episodes_to_check": self._episodes_to_check,
        }

    def recall(self, learned: Json, *, anew: bool) -> bool:
        """Take over what another learned; return whether that is all.

        Otherwise this one has to learn from the episodes again: its rule for terminations is of another kind,
        or was given ``anew``.

        Raises:
            ValueError: Nobody learned that.
        """
        if learned is None:
            return False
        self._episodes_to_check = require_count("episodes_to_check", learned["episodes_to_check"], at_least=0)
        if learned["rule"] != self._termination.kind:
            return False
        self._termination.recall(learned["values"])
        return not anew

    def relabel(self, batch: Batch, steps: Steps, count: int) -> None:
        """Give the first steps of a batch the rewards and terminations that go with their desired goals.

        Args:
            batch: The steps, with new goals already.
            steps: They, as records.
            count: How many of them.

        Raises:
            ValueError: A function answers wrongly.
        """
        outcomes = self._outcomes(batch, steps, count)
        rewards = self._rewards(batch, outcomes)
        batch.rewards[:count] = rewards
        ends = self._termination.ends(outcomes, rewards)
        if ends is not outcomes.terminated:  # which are the batch's own
            batch.terminations[:count] = ends

    def learn(self, episodes: EncodedEpisodes) -> None:
        """Find out why new episodes ended, and compare the first ones with the reward function.

        Raises:
            ValueError: A function answers wrongly.
        """
        rows = self._studied(episodes)
        if len(rows):
            steps = episodes.take(rows)
            other_reason = self._termination.learn(
                self._outcomes(self._batch(steps), steps, len(rows)),
                earned=lambda: self._earned(steps),
                if_reached=lambda: self._earned(steps._replace(desired=_achieved(steps))),
            )
            episodes.other_reason[rows] = other_reason
        if self._episodes_to_check:
            self._compare(episodes)

    def questions(self) -> dict[str, Callable[[Steps], Any]]:
        """Return what is asked of the user's functions, under their names: answers for steps."""
        questions: dict[str, Callable[[Steps], Any]] = {self._rewards.name: self._earned}
        if isinstance(self._termination, Recompute):
            questions["compute_terminated"] = self._ended
        return questions

    @property
    def asks_row_by_row(self) -> bool:
        """Whether terminations are asked for one goal at a time, or may be."""
        rule = self._termination
        return isinstance(rule, Recompute) and isinstance(
            rule.function, LoopedGoalFunction | LazilyVectorizedGoalFunction
        )

    def _studied(self, episodes: EncodedEpisodes) -> np.ndarray:
        if self._termination.studies == "all steps":
            return np.arange(episodes.num_steps)
        last = episodes.last_steps
        terminated = episodes.terminated[last]
        studied: np.ndarray = last[terminated & (self._termination.studies != "no steps")]
        return studied

    def _compare(self, episodes: EncodedEpisodes) -> None:
        checked = min(self._episodes_to_check, len(episodes.last_steps))
        steps = episodes.take(np.arange(episodes.last_steps[checked - 1] + 1))
        recorded, computed = steps.records[0]["reward"], self._earned(steps)
        agrees = rewards_agree(recorded, computed)
        # Before the warning, which may be turned into an error: it is to come once.
        self._episodes_to_check = self._episodes_to_check - checked if agrees else 0
        if not agrees:
            warn_of_other_rewards(self._rewards.name, recorded, computed, episodes.t[: len(recorded)])

    def _batch(self, steps: Steps) -> Batch:
        terminated = steps.records[0]["terminated"]
        discounts, weights = (filled_like(terminated, each) for each in (self._gamma, 1))
        return self._layout.batch(steps, discounts, weights, relabeled=terminated | True)

    def _earned(self, steps: Steps) -> Any:
        batch = self._batch(steps)
        return self._rewards(batch, self._outcomes(batch, steps, len(batch)))

    def _ended(self, steps: Steps) -> Any:
        batch = self._batch(steps)
        return self._termination.ends(self._outcomes(batch, steps, len(batch)), batch.rewards)

    def _outcomes(self, batch: Batch, steps: Steps, count: int) -> Outcomes:
        reached = batch.next_observations
        return Outcomes(
            achieved_goal=read_only(reached["achieved_goal"], count),
            desired_goal=read_only(reached["desired_goal"], count),
            info=self._layout.infos.rows(steps.infos, count),
            terminated=batch.terminations[:count],
            other_reason=steps.records[0, :count]["other_reason"],
        )


def _achieved(steps: Steps) -> np.ndarray:
    """Return the goals that steps achieved, as their desired goals, before and after."""
    return np.broadcast_to(steps.records[1], steps.records.shape)


AnyRelabeling: TypeAlias = Relabeling | NoRelabeling | MissingFunctions
