"""Specimens with faults in terminations, in resets, and in the use of random generators."""

from __future__ import annotations

import random

import gymnasium as gym
import numpy as np

from tests.support.specimens.reach import DenseReach, Reach


class TerminatesAtTheHorizon(Reach):
    def terminated(self, observation, info):
        return info["is_success"] or self.elapsed >= self.horizon


class TerminatesAndTruncates(Reach):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, truncated, info


class TerminatesAfterSeconds(Reach):
    """The time limit is a number of simulated seconds, and terminates the episode."""

    seconds = 0.0

    def reset(self, *, seed=None, options=None):
        self.seconds = 0.0
        return super().reset(seed=seed)

    def terminated(self, observation, info):
        self.seconds += 0.04
        return info["is_success"] or self.seconds > 0.5


class OldTimeLimit(gym.Wrapper):
    """A time limit that terminates the episode, as in old Gym versions."""

    def __init__(self):
        super().__init__(Reach())

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.steps += 1
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated or self.steps == 12, False, info


class TerminationReadsTheClock(Reach):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) | (self.elapsed >= self.horizon)


class TerminationReadsTheGoal(Reach):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, self.goal)


class TerminationReadsThePosition(DenseReach):
    """compute_terminated reads a crash from the position of the environment."""

    def compute_terminated(self, achieved_goal, desired_goal, info):
        crashed = bool(np.abs(self.position).max() > 0.7)
        return super().compute_terminated(achieved_goal, desired_goal, info) | crashed


class TerminationNeedsSomeSteps(Reach):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) & (self.elapsed > 3)


class FlagOfLastEpisode(Reach):
    succeeded = False

    def inform(self, observation):
        before, self.succeeded = self.succeeded, super().inform(observation)["is_success"]
        return {"is_success": before if self.elapsed == 0 else self.succeeded}


class InfoOfLastEpisode(Reach):
    last = None

    def step(self, action):
        returned = super().step(action)
        self.last = dict(returned[-1])
        return returned

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return observation, dict(self.last or info)


class FlagOfLastPosition(Reach):
    """``is_success`` at reset is computed from the last position of the previous episode."""

    def reset(self, *, seed=None, options=None):
        flag = hasattr(self, "goal") and bool(self.is_success(self.position, self.goal))
        observation, _ = super().reset(seed=seed)
        return observation, {"is_success": flag}


class VelocityStays(Reach):
    velocity = np.zeros(2)

    def move(self, action):
        self.velocity = 0.5 * self.velocity + action
        return super().move(self.velocity)


class ClockStays(Reach):
    """The step counter of the time limit is not reset between episodes."""

    total = 0

    def step(self, action):
        self.total += 1
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, self.total % 13 == 0 and not terminated, info


class GeneratorWithFixedSeed(Reach):
    """The noise is from a generator that the seed of reset does not set."""

    def __init__(self):
        super().__init__()
        self.noise = np.random.default_rng(0)

    def move(self, action):
        return super().move(action + self.noise.normal(0, 0.1, 2))


class ActionsDecay(Reach):
    steps = 0

    def move(self, action):
        self.steps += 1
        return super().move(action * 0.99**self.steps)


class OptionsSkipTheSeed(Reach):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed if options is None else None)


class OptionsDrawElsewhere(Reach):
    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        if options:
            self.goal = np.random.default_rng().uniform(-1, 1, 2).astype(np.float32)
            observation = self.observe()
            info = self.inform(observation)
        return observation, info


class OptionsKeepThePosition(Reach):
    """A reset with options keeps the last position of the previous episode."""

    def reset(self, *, seed=None, options=None):
        position = getattr(self, "position", None)
        observation, info = super().reset(seed=seed)
        if options is not None and position is not None:
            self.position = position
            observation = self.observe()
            info = self.inform(observation)
        return observation, info


class ResetSeedsGlobally(Reach):
    def reset(self, *, seed=None, options=None):
        np.random.seed(0 if seed is None else seed)  # noqa: NPY002 - the fault
        return super().reset(seed=seed)


class StepSeedsPython(Reach):
    def move(self, action):
        random.seed(self.elapsed)
        return super().move(action)


class RewardSeedsGlobally(DenseReach):
    """compute_reward seeds a generator to draw the same noise at each call."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        np.random.seed(0)  # noqa: NPY002 - the fault
        noise = np.random.normal(0, 0.01)  # noqa: NPY002 - the fault
        return super().compute_reward(achieved_goal, desired_goal, info) - abs(noise)


class TerminationSeedsPython(Reach):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        random.seed(7)
        return super().compute_terminated(achieved_goal, desired_goal, info)


class ConstructorSeedsGlobally(Reach):
    def __init__(self):
        np.random.seed(0)  # noqa: NPY002 - the fault
        super().__init__()


class ConstructorSeedsPython(Reach):
    def __init__(self):
        random.seed(type(self).__name__)
        super().__init__()


class ThirdStepSeedsGlobally(Reach):
    def terminated(self, observation, info):
        if self.elapsed == 3:
            np.random.seed(3)  # noqa: NPY002 - the fault
        return super().terminated(observation, info)


FAULTS = [
    (TerminatesAtTheHorizon, "GE208"),
    (TerminatesAndTruncates, "GE208"),
    (TerminatesAfterSeconds, "GE208"),
    (OldTimeLimit, "GE208"),
    (TerminationReadsTheClock, "GE209"),
    (TerminationReadsTheGoal, "GE209"),
    (TerminationReadsThePosition, "GE209"),
    (TerminationNeedsSomeSteps, "GE209"),
    (FlagOfLastEpisode, "GE202"),
    (InfoOfLastEpisode, "GE202"),
    (FlagOfLastPosition, "GE202"),
    (VelocityStays, "GE402"),
    (ClockStays, "GE402"),
    (GeneratorWithFixedSeed, "GE402"),
    (ActionsDecay, "GE402"),
    (OptionsSkipTheSeed, "GE403"),
    (OptionsDrawElsewhere, "GE403"),
    (OptionsKeepThePosition, "GE403"),
    (ResetSeedsGlobally, "GE404"),
    (StepSeedsPython, "GE404"),
    (RewardSeedsGlobally, "GE404"),
    (TerminationSeedsPython, "GE404"),
    (ConstructorSeedsGlobally, "GE404"),
    (ConstructorSeedsPython, "GE404"),
    (ThirdStepSeedsGlobally, "GE404"),
]
