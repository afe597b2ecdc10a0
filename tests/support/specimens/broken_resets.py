"""Specimens with faults in terminations, in resets, and in the use of random generators."""

import random

import numpy as np

from tests.support.specimens.reach import DenseReach, Reach


class TerminatesAtTheHorizon(Reach, breaks="GE208"):
    def terminated(self, observation, info):
        return info["is_success"] or self.elapsed >= self.horizon


class TerminationReadsTheClock(Reach, breaks="GE209"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) | (self.elapsed >= self.horizon)


class TerminationNeedsSomeSteps(Reach, breaks="GE209"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) & (self.elapsed > 3)


class FlagOfLastEpisode(Reach, breaks="GE202"):
    succeeded = False

    def inform(self, observation):
        before, self.succeeded = self.succeeded, super().inform(observation)["is_success"]
        return {"is_success": before if self.elapsed == 0 else self.succeeded}


class VelocityStays(Reach, breaks="GE402"):
    velocity = np.zeros(2)

    def move(self, action):
        self.velocity = 0.5 * self.velocity + action
        return super().move(self.velocity)


class GeneratorWithFixedSeed(Reach, breaks="GE402"):
    """The noise is from a generator that the seed of reset does not set."""

    def __init__(self):
        super().__init__()
        self.noise = np.random.default_rng(0)

    def move(self, action):
        return super().move(action + self.noise.normal(0, 0.1, 2))


class OptionsSkipTheSeed(Reach, breaks="GE403"):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed if options is None else None)


class OptionsDrawElsewhere(Reach, breaks="GE403"):
    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        if options:
            self.goal = np.random.default_rng().uniform(-1, 1, 2).astype(np.float32)
            observation = self.observe()
            info = self.inform(observation)
        return observation, info


class OptionsKeepThePosition(Reach, breaks="GE403"):
    """A reset with options keeps the last position of the previous episode."""

    def reset(self, *, seed=None, options=None):
        position = getattr(self, "position", None)
        observation, info = super().reset(seed=seed)
        if options is not None and position is not None:
            self.position = position
            observation = self.observe()
            info = self.inform(observation)
        return observation, info


class ResetSeedsGlobally(Reach, breaks="GE404"):
    def reset(self, *, seed=None, options=None):
        np.random.seed(0 if seed is None else seed)  # noqa: NPY002 - the fault
        return super().reset(seed=seed)


class RewardSeedsGlobally(DenseReach, breaks="GE404"):
    """compute_reward seeds a generator to draw the same noise at each call."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        np.random.seed(0)  # noqa: NPY002 - the fault
        noise = np.random.normal(0, 0.01)  # noqa: NPY002 - the fault
        return super().compute_reward(achieved_goal, desired_goal, info) - abs(noise)


class TerminationSeedsPython(Reach, breaks="GE404"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        random.seed(7)
        return super().compute_terminated(achieved_goal, desired_goal, info)


class ConstructorSeedsGlobally(Reach, breaks="GE404"):
    def __init__(self):
        np.random.seed(0)  # noqa: NPY002 - the fault
        super().__init__()


class ThirdStepSeedsGlobally(Reach, breaks="GE404"):
    def terminated(self, observation, info):
        if self.elapsed == 3:
            np.random.seed(3)  # noqa: NPY002 - the fault
        return super().terminated(observation, info)
