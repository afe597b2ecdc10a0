"""Relabeling: what steps earn under goals that replace theirs, and whether they end the episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from her_wrappers.replay.batch import Batch
from her_wrappers.replay.rewards import ask, read_only, require_rewards, rewards_agree, warn_of_other_rewards
from her_wrappers.replay.termination import Outcomes

if TYPE_CHECKING:
    from her_wrappers.files.layout import Json
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.encoded_episodes import EncodedEpisodes
    from her_wrappers.replay.infos import InfoLayout
    from her_wrappers.replay.step_layout import StepLayout
    from her_wrappers.replay.steps import Steps
    from her_wrappers.replay.termination import Termination

BatchFunction: TypeAlias = Callable[[Batch], Any]
"""From transitions with the goals that they are to have to (B,) rewards."""

CHECKED_EPISODES = 10
"""So many first episodes are compared with the reward function."""


class RewardRule(Protocol):
    """A way to ask a user's function what steps earn under the goals that they have.

    Attributes:
        name: Of the function.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - an attribute, that need not be writable

    def __call__(self, steps: Steps, outcomes: Outcomes) -> np.ndarray:
        """Return (B,) float32 rewards, or raise ValueError where the function answers wrongly."""


@dataclass(frozen=True)
class GoalRewards:
    """Rewards that are functions of goals, as ``compute_reward`` is."""

    function: GoalFunction
    name: ClassVar[str] = "compute_reward"

    def __call__(self, steps: Steps, outcomes: Outcomes) -> np.ndarray:
        """Ask with the goals and infos."""
        goals = outcomes.achieved_goal, outcomes.desired_goal
        rewards = ask(self.name, self.function, *goals, outcomes.info)
        return require_rewards(self.name, rewards, len(steps.records))


@dataclass(frozen=True)
class BatchRewards:
    """Rewards that need the state or the action too."""

    function: BatchFunction
    layout: StepLayout
    name: ClassVar[str] = "reward_fn"

    def __call__(self, steps: Steps, outcomes: Outcomes) -> np.ndarray:
        """Ask with whole transitions."""
        count = len(steps.records)
        relabeled = np.ones(count, np.bool_)
        parts = (*self.layout.parts(steps), relabeled, steps.numbers)
        batch = Batch(*map(read_only, parts))
        return require_rewards(self.name, ask(self.name, self.function, batch), count)


class Relabeling:
    """The functions of goals, asked for many steps at once.

    Args:
        layout: Of the steps.
        infos: Of the infos that the functions get.
        rewards: The rule for rewards.
        termination: The rule for terminations.
    """

    def __init__(
        self, layout: StepLayout, infos: InfoLayout, rewards: RewardRule, termination: Termination
    ) -> None:
        self._layout = layout
        self._infos = infos
        self._rewards = rewards
        self._termination = termination
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

    def recall(self, learned: Json) -> bool:
        """Take over what another learned; return whether its rule for terminations was of this kind.

        Otherwise this one has to learn from the episodes again.
        """
        if learned is None:
            return False
        self._episodes_to_check = int(learned["episodes_to_check"])
        if learned["rule"] != self._termination.kind:
            return False
        self._termination.recall(learned["values"])
        return True

    def relabel(self, steps: Steps) -> None:
        """Give steps the rewards and terminations that go with their desired goals.

        Raises:
            ValueError: A function answers wrongly.
        """
        outcomes = self._outcomes(steps)
        rewards = self._rewards(steps, outcomes)
        steps.records["reward"] = rewards
        steps.records["terminated"] = self._termination.ends(outcomes, rewards)

    def learn(self, episodes: EncodedEpisodes) -> None:
        """Find out why new episodes ended, and compare the first ones with the reward function.

        Raises:
            ValueError: A function answers wrongly.
        """
        rows = self._studied(episodes)
        if len(rows):
            steps = episodes.take(rows)
            outcomes = self._outcomes(steps)
            other_reason = self._termination.learn(
                outcomes,
                earned=lambda: self._rewards(steps, outcomes),
                if_reached=lambda: self._rewards_if_reached(steps),
            )
            episodes.other_reason[rows] = other_reason
        if self._episodes_to_check:
            self._compare(episodes)

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
        outcomes = self._outcomes(steps)
        recorded, computed = steps.records["reward"], self._rewards(steps, outcomes)
        agrees = rewards_agree(recorded, computed)
        # Before the warning, which may be turned into an error: it is to come once.
        self._episodes_to_check = self._episodes_to_check - checked if agrees else 0
        if not agrees:
            warn_of_other_rewards(self._rewards.name, recorded, computed, episodes.t[: len(recorded)])

    def _outcomes(self, steps: Steps) -> Outcomes:
        return Outcomes(
            achieved_goal=read_only(self._layout.goals(steps.next_records["goal"])),
            desired_goal=read_only(self._layout.goals(steps.desired[1])),
            info=self._infos.rows(steps.infos, len(steps.records)),
            terminated=steps.records["terminated"],
            other_reason=steps.records["other_reason"],
        )

    def _rewards_if_reached(self, steps: Steps) -> np.ndarray:
        achieved = steps.next_records["goal"]
        reached = steps._replace(desired=np.stack([achieved, achieved]))
        return self._rewards(reached, self._outcomes(reached))
