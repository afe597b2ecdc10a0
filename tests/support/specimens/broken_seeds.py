"""Specimens whose values do not follow from the seed, or that seed global generators (rules GE4xx)."""

import random

import numpy as np

from tests.support.specimens.reach import DenseReach, Reach


class GoalFromOtherGenerator(Reach, breaks="GE401"):
    def draw_start(self):
        position, _ = super().draw_start()
        goal = position
        while self.is_success(position, goal):  # otherwise `reset` would draw the position again too
            goal = np.random.default_rng().uniform(-1, 1, 2).astype(np.float32)
        return np.stack([position, goal])


class IgnoresSeed(Reach, breaks="GE401"):
    def reset(self, *, seed=None, options=None):
        return super().reset()


class UnseededDynamics(Reach, breaks="GE401"):
    def move(self, action):
        return super().move(action + np.random.default_rng().normal(0, 0.1, 2))


class CarriesStateOver(Reach, breaks="GE401"):
    def draw_start(self):
        position, goal = super().draw_start()
        return np.stack([getattr(self, "position", position), goal])


class SharesStateBetweenCopies(Reach, breaks="GE401"):
    wind = [0.0]  # noqa: RUF012 - the fault: all environments share the list

    def move(self, action):
        self.wind[0] = (self.wind[0] + 0.01) % 0.1
        return super().move(action + self.wind[0])


class InfoFromTheGlobalGenerator(Reach, breaks="GE401"):
    def inform(self, observation):
        return super().inform(observation) | {"noise": self.noise()}

    def noise(self):
        return float(np.random.normal())  # noqa: NPY002 - the fault


class VelocityStays(Reach, breaks="GE402"):
    velocity = np.zeros(2)

    def move(self, action):
        self.velocity = 0.5 * self.velocity + action
        return super().move(self.velocity)


class KeepsTheFirstGoal(Reach, breaks="GE402"):
    """All goals are close to the first one, which the first seed determines."""

    first = None

    def draw_start(self):
        start, goal = super().draw_start()
        self.first = goal if self.first is None else self.first
        return np.stack([start, 0.8 * self.first + 0.2 * goal])


class OptionsSkipTheSeed(Reach, breaks="GE403"):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed if options is None else None)


class OptionsDrawElsewhere(Reach, breaks="GE403"):
    def use_options(self, options):
        if options:
            self.goal = np.random.default_rng().uniform(-1, 1, 2).astype(np.float32)


class OptionsKeepThePosition(Reach, breaks="GE403"):
    """A reset with options keeps the last position of the previous episode."""

    last = None

    def reset(self, *, seed=None, options=None):
        self.last = getattr(self, "position", None)
        return super().reset(seed=seed, options=options)

    def use_options(self, options):
        if options is not None and self.last is not None:
            self.position = self.last


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


class SeedIsZeroByDefault(Reach, breaks="GE405"):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed or 0)


class RepeatsTheLastSeed(Reach, breaks="GE405"):
    last = None

    def reset(self, *, seed=None, options=None):
        self.last = self.last if seed is None else seed
        return super().reset(seed=self.last)


class NewGeneratorAtReset(Reach, breaks="GE405"):
    def draw_start(self):
        return self.rng.uniform(-1, 1, (2, 2)).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(7)
        return super().reset(seed=seed)
