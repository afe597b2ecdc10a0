"""Buffers with one fault in their rewards, terminations, returns or priorities."""

from __future__ import annotations

import numpy as np

from tests.support.replay_specimens.full import Full
from tests.support.replay_specimens.reference import Reference


class RewardsAreShifted(Reference):
    def rewards(self, batch, infos):
        return super().rewards(batch, infos) + 1


class RewardsAreOfOtherRows(Reference):
    def rewards(self, batch, infos):
        return np.roll(super().rewards(batch, infos), 1)


class RewardsAreOfPresentGoals(Reference):
    def rewards(self, batch, infos):
        return self.env.compute_reward(batch["achieved_goal"], batch["desired_goal"], infos)


class RewardsHaveGoalsSwapped(Reference):
    def rewards(self, batch, infos):
        return self.env.compute_reward(batch["desired_goal"], batch["next_achieved_goal"], infos)


class RewardsAreKept(Reference):
    def rewards(self, batch, infos):
        return batch["reward"]


class OriginalRewardsAreZero(Reference):
    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        return row if relabeled else row | {"reward": np.array(0.0)}


class OriginalRewardsAreRecomputed(Reference):
    """Rewards of original rows are recomputed, as in OpenAI baselines."""

    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        return row | {"reward": np.array(self.env.rewards(row["next_achieved_goal"], goal, row["info"]))}


class InfosAreEmpty(Reference):
    def rewards(self, batch, infos):
        return super().rewards(batch, [{}] * len(infos))


class InfosAreOfOtherRows(Reference):
    def rewards(self, batch, infos):
        return super().rewards(batch, infos[::-1])


class GoalsAreFloat32(Reference):
    def sample(self, batch_size):
        batch = super().sample(batch_size)
        goals = {key: values.astype(np.float32) for key, values in batch.items() if "goal" in key}
        return batch | (goals if batch["desired_goal"].dtype == np.float64 else {})


class GoalsAreRounded(Reference):
    def sample(self, batch_size):
        batch = super().sample(batch_size)
        return batch | {key: np.round(values, 4) for key, values in batch.items() if "goal" in key}


class ImagesAreScaled(Reference):
    def goal(self, episode, t):
        goal = super().goal(episode, t)
        return goal / 255 if goal.dtype == np.uint8 else goal


class ImagesAreTransposed(Reference):
    def goal(self, episode, t):
        goal = super().goal(episode, t)
        return goal.T if goal.dtype == np.uint8 else goal


class DiscreteGoalsAreInt8(Reference):
    def goal(self, episode, t):
        goal = super().goal(episode, t)
        return goal.astype(np.int8) if goal.dtype == np.int64 else goal


class SuccessContinues(Reference):
    """Relabeled rows keep recorded terminations, as in Stable-Baselines3, issue 627."""

    def terminated(self, step, goal):
        return step["terminated"]


class SuccessNeverTerminates(Reference):
    def terminated(self, step, goal):
        return step["crashed"]


class OldSuccessTerminates(Reference):
    def terminated(self, step, goal):
        return super().terminated(step, goal) or bool(step["terminated"])


class RelabeledRowsTerminate(Reference):
    def terminated(self, step, goal):
        return True


class CrashIsForgotten(Reference):
    def terminated(self, step, goal):
        return self.is_reached(step["next_obs"], goal)


class TimeLimitTerminates(Reference):
    def add(  # noqa: PLR0917 - as in the base class
        self, obs, action, reward, next_obs, terminated, truncated, info, env_index=0
    ):
        super().add(obs, action, reward, next_obs, terminated or truncated, truncated, info, env_index)


class OriginalRowsNeverTerminate(Reference):
    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        return row if relabeled else row | {"terminated": False}


class OriginalCrashesAreForgotten(Reference):
    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        return row if relabeled else row | {"terminated": self.is_reached(step["next_obs"], goal)}


class SaysKeepButRecomputes(Reference):
    termination = "keep"


class SaysNeverButKeeps(Reference):
    termination = "never"

    def terminated(self, step, goal):
        return step["terminated"]


class TruncatedIsTerminated(Reference):
    def row(self, step, goal, relabeled):
        return super().row(step, goal, relabeled) | {"truncated": step["terminated"]}


class WindowPastSuccess(Full):
    def window(self, episode, t, goal, relabeled):
        return episode[t : t + self.n]


class WindowOfOriginalRowsIsOneStep(Full):
    def window(self, episode, t, goal, relabeled):
        steps = super().window(episode, t, goal, relabeled)
        return steps if relabeled else steps[:1]


class ReturnIsNotDiscounted(Full):
    def power(self, offset):
        return 1.0


class ReturnIsDiscountedOnceMore(Full):
    def power(self, offset):
        return self.gamma ** (offset + (self.n > 1))


class DiscountIsFixed(Full):
    def discount(self, lengths):
        return self.gamma**self.n


class TerminationOfFirstStep(Full):
    def sample_row(self, i, batch_size):
        row = super().sample_row(i, batch_size)
        first = self.row(row["window"][0], row["desired_goal"], row["relabeled"])
        return row | {"terminated": first["terminated"]}


class PrioritiesAreIgnored(Full):
    def priority(self, step):
        return 20.0


class PrioritiesAreInverted(Full):
    def priority(self, step):
        return 21.0 - super().priority(step)


class PriorityDecidesRelabeling(Full):
    def is_relabeled(self, step):
        if not self.priorities:
            return super().is_relabeled(step)
        return self.rng.random() < (0.95 if self.priority(step) > 10 else 0.6)


class IndexIsThatOfTheBatch(Full):
    def sample(self, batch_size):
        return super().sample(batch_size) | {"index": np.arange(batch_size)}


FAULTS = [
    (RewardsAreShifted, "HB301"),
    (RewardsAreOfOtherRows, "HB301"),
    (RewardsAreOfPresentGoals, "HB302"),
    (RewardsHaveGoalsSwapped, "HB303"),
    (RewardsAreKept, "HB304"),
    (OriginalRewardsAreZero, "HB305"),
    (OriginalRewardsAreRecomputed, "HB308"),
    (InfosAreEmpty, "HB306"),
    (InfosAreOfOtherRows, "HB306"),
    (GoalsAreFloat32, "HB501"),
    (GoalsAreRounded, "HB501"),
    (ImagesAreScaled, "HB502"),
    (ImagesAreTransposed, "HB502"),
    (DiscreteGoalsAreInt8, "HB503"),
    (SuccessContinues, "HB401"),
    (SuccessNeverTerminates, "HB401"),
    (OldSuccessTerminates, "HB402"),
    (RelabeledRowsTerminate, "HB402"),
    (CrashIsForgotten, "HB403"),
    (TimeLimitTerminates, "HB404"),
    (OriginalRowsNeverTerminate, "HB405"),
    (OriginalCrashesAreForgotten, "HB405"),
    (SaysKeepButRecomputes, "HB406"),
    (SaysNeverButKeeps, "HB406"),
    (TruncatedIsTerminated, "HB407"),
    (WindowPastSuccess, "HB702"),
    (WindowOfOriginalRowsIsOneStep, "HB702"),
    (ReturnIsNotDiscounted, "HB701"),
    (ReturnIsDiscountedOnceMore, "HB701"),
    (DiscountIsFixed, "HB703"),
    (TerminationOfFirstStep, "HB704"),
    (PrioritiesAreIgnored, "HB801"),
    (PrioritiesAreInverted, "HB801"),
    (PriorityDecidesRelabeling, "HB802"),
    (IndexIsThatOfTheBatch, "HB803"),
]
"""Specimens, each with the code of the rule that it breaks."""
