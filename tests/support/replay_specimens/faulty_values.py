"""Buffers with one fault in their rewards, terminations, returns or priorities."""

import numpy as np

from tests.support.replay_specimens.reference import Full, Reference


class RewardsAreOfPresentGoals(Reference, code="HB301"):
    def rewards(self, batch, infos):
        return self.env.compute_reward(batch["achieved_goal"], batch["desired_goal"], infos)


class RewardsAreKept(Reference, code="HB301"):
    def rewards(self, batch, infos):
        return batch["reward"]


class OriginalRewardsAreZero(Reference, code="HB301"):
    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        return row if relabeled else row | {"reward": np.array(0.0)}


class OriginalRewardsAreRecomputed(Reference, code="HB304"):
    """Rewards of original rows are recomputed, as in OpenAI baselines."""

    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        reward = self.env.compute_reward(row["next_achieved_goal"], goal, row["info"])
        return row | {"reward": np.array(reward)}


class InfosAreEmpty(Reference, code="HB705"):
    def rewards(self, batch, infos):
        return super().rewards(batch, [{}] * len(infos))


class InfosAreOfOtherRows(Reference, code="HB305"):
    def rewards(self, batch, infos):
        return super().rewards(batch, infos[::-1])


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


class OriginalCrashesAreForgotten(Reference, code="HB402"):
    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        return row if relabeled else row | {"terminated": self.is_reached(step["next_obs"], goal)}


class SaysKeepButRecomputes(Reference, code="HB401"):
    termination = "keep"


class TruncatedIsTerminated(Reference, code="HB401"):
    def row(self, step, goal, relabeled):
        return super().row(step, goal, relabeled) | {"truncated": step["terminated"]}


class WindowPastSuccess(Full, code="HB550"):
    def window(self, episode, t, goal, relabeled):
        return episode[t : t + self.n]


class ReturnIsDiscountedOnceMore(Full, code="HB350"):
    def power(self, m):
        return self.gamma ** (m + (self.n > 1))


class DiscountIsFixed(Full, code="HB450"):
    def discount(self, lengths):
        return self.gamma**self.n


class PriorityDecidesRelabeling(Full, code="HB204"):
    def is_relabeled(self, episode, t, i, batch_size):
        if not self.priorities:
            return super().is_relabeled(episode, t, i, batch_size)
        return self.rng.random() < (0.95 if self.priority(episode[t]) > 10 else 0.6)


class IndexIsThatOfTheBatch(Full, code="HB803"):
    def sample(self, batch_size):
        return super().sample(batch_size) | {"index": np.arange(batch_size)}
