"""Buffers with one fault in a field of their rows: observations, rewards, ends or returns."""

import numpy as np

from tests.support.replay_specimens.correct import RecomputesOriginalRewards
from tests.support.replay_specimens.reference import Full, Reference


class NextStateOfAnotherStep(Reference, code="HB501"):
    def row(self, step, goal, relabeled):
        other, t = self.rows[self.rng.integers(len(self.rows))]
        return super().row(step | {"next_obs": other[t]["next_obs"]}, goal, relabeled)


class GoalsAreFloat32(Reference, code="HB501"):
    def sample(self, batch_size):
        batch = super().sample(batch_size)
        goals = {key: values.astype(np.float32) for key, values in batch.items() if "goal" in key}
        return batch | (goals if batch["desired_goal"].dtype == np.float64 else {})


class ImagesAreScaled(Reference, code="HB106"):
    def goal(self, episode, t):
        goal = super().goal(episode, t)
        return goal / 255 if goal.dtype == np.uint8 else goal


class DiscreteGoalsAreInt8(Reference, code="HB107"):
    def goal(self, episode, t):
        goal = super().goal(episode, t)
        return goal.astype(np.int8) if goal.dtype == np.int64 else goal


# --- rewards and infos -----------------------------------------------------------------------------


class RewardsAreOfPresentGoals(Reference, code="HB301"):
    def rewards(self, batch, infos):
        return self.env.compute_reward(batch["achieved_goal"], batch["desired_goal"], infos)


class OriginalRewardsAreZero(Reference, code="HB301"):
    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        return row if relabeled else row | {"reward": np.array(0.0)}


class OriginalRewardsAreRecomputed(RecomputesOriginalRewards, code="HB304"):
    offers = Reference.offers


class InfosAreEmpty(Reference, code="HB705"):
    def rewards(self, batch, infos):
        return super().rewards(batch, [{}] * len(infos))


class InfosAreOfOtherRows(Reference, code="HB305"):
    def rewards(self, batch, infos):
        return super().rewards(batch, infos[::-1])


class InfosAreLostWhenFull(Reference, code="HB320"):
    def rewards(self, batch, infos):
        return super().rewards(batch, [{"cost": 0.0}] * len(infos) if self.is_full else infos)


# --- ends of episodes ------------------------------------------------------------------------------


class SuccessContinues(Reference, code="HB401"):
    """Relabeled rows keep recorded terminations, as in Stable-Baselines3, issue 627."""

    def terminated(self, step, goal):
        return step["terminated"]


class OldSuccessTerminates(Reference, code="HB402"):
    def terminated(self, step, goal):
        return super().terminated(step, goal) or bool(step["terminated"])


class CrashIsForgotten(Reference, code="HB402"):
    def terminated(self, step, goal):
        return self.is_reached(step["next_obs"], goal)


class TimeLimitTerminates(Reference, code="HB401"):
    def add(self, *transition, env_index=0):
        *values, terminated, truncated, info = transition
        super().add(*values, terminated or truncated, truncated, info, env_index=env_index)


class SaysKeepButRecomputes(Reference, code="HB401"):
    termination = "keep"


class RelabeledRowsAreNotTruncated(Reference, code="HB402"):
    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        return row | {"truncated": False} if relabeled else row


class DiscountIgnoresTermination(Reference, code="HB401"):
    def sample(self, batch_size):
        return super().sample(batch_size) | {"discount": np.full(batch_size, 0.9)}


# --- n-step returns --------------------------------------------------------------------------------


class WindowPastSuccess(Full, code="HB550"):
    def window(self, episode, t, goal, relabeled):
        return episode[t : t + self.n]


class WindowHasTheFirstInfo(Full, code="HB350"):
    def row_of_window(self, row, m):
        return super().row_of_window(row, m) | {"info": row["window"][0]["info"]}


class ReturnIsDiscountedOnceMore(Full, code="HB350"):
    def power(self, m):
        return self.gamma ** (m + (self.n > 1))


class DiscountIsFixed(Full, code="HB450"):
    def discount(self, lengths):
        return self.gamma**self.n
