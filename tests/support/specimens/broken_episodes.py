"""Specimens with faults in success flags, terminations, memory, seeds or infos."""

from __future__ import annotations

import numpy as np

from tests.support.specimens.reach import DenseReach, Reach


class NoFlag(Reach):
    def inform(self, observation):
        return {}


class FlagWithOtherRadius(Reach):
    def inform(self, observation):
        distance = self.distance(observation["achieved_goal"], observation["desired_goal"])
        return {"is_success": bool(distance < 0.35)}


class FlagAlwaysFalse(Reach):
    def inform(self, observation):
        return {"is_success": False}


class FlagOneStepLate(Reach):
    last = False

    def inform(self, observation):
        now = super().inform(observation)["is_success"]
        flag, self.last = self.last and self.elapsed > 0, now
        return {"is_success": flag}

    def terminated(self, observation, info):
        return False

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) & False


class FlagIsFloat(Reach):
    def inform(self, observation):
        return {"is_success": float(super().inform(observation)["is_success"])}


class FlagNamedSuccess(Reach):
    def inform(self, observation):
        return {"success": super().inform(observation)["is_success"]}


class NoFlagAtReset(Reach):
    def inform(self, observation):
        return super().inform(observation) if self.elapsed else {}


class NoComputeTerminated(Reach):
    compute_terminated = None

    def terminated(self, observation, info):
        return info["is_success"]


class TerminationNeverRelabeled(Reach):
    def terminated(self, observation, info):
        return info["is_success"]

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return np.zeros(np.shape(achieved_goal)[:-1], bool)


class TerminationWithOtherRadius(Reach):
    def terminated(self, observation, info):
        return info["is_success"]

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.distance(achieved_goal, desired_goal) < 0.5


class TerminationNotImplemented(DenseReach):
    def terminated(self, observation, info):
        return False

    def compute_terminated(self, achieved_goal, desired_goal, info):
        raise NotImplementedError


class OneTerminationForABatch(DenseReach):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return False


class TerminationOfAllRowsTogether(Reach):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return bool(np.linalg.norm(achieved_goal - desired_goal) < self.radius)


class TerminationRaisesOnBatches(Reach):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return True if self.is_success(achieved_goal, desired_goal) else False  # noqa: SIM210


class StartsSolved(Reach):
    def draw_start(self):
        self.radius = 0.25
        start = self.np_random.uniform(-1, 1, 2)
        return np.stack([start, (start + self.np_random.uniform(-0.1, 0.1, 2)).clip(-1, 1)]).astype(
            np.float32
        )

    def reset(self, *, seed=None, options=None):
        super(Reach, self).reset(seed=seed)
        self.position, self.goal = self.draw_start()
        self.elapsed = 0
        observation = self.observe()
        return observation, self.inform(observation)


class ReusesArrays(Reach):
    def move(self, action):
        self.position += super().move(action) - self.position
        return self.position

    def observe(self):
        return super().observe() | {"achieved_goal": self.position}


class ReusesDict(Reach):
    def observe(self):
        if not hasattr(self, "returned"):
            self.returned = {}
        self.returned.update(super().observe())
        return self.returned


class ReusesInfo(Reach):
    def inform(self, observation):
        if not hasattr(self, "info"):
            self.info = {}
        self.info.update(super().inform(observation), elapsed=self.elapsed)
        return self.info


class GrowsListInInfo(Reach):
    def inform(self, observation):
        self.path = [*self.path[:0], 0.0] if self.elapsed == 0 else self.path
        self.path.append(float(self.position[0]))
        return super().inform(observation) | {"path": self.path}

    path = ()


class ReturnsItsGoal(Reach):
    def observe(self):
        return super().observe() | {"desired_goal": self.goal}


class GoalIsViewOfObservation(Reach):
    def observe(self):
        position = self.position.copy()
        return super().observe() | {"observation": position, "achieved_goal": position[:]}


class ChangesTheAction(Reach):
    def move(self, action):
        action *= 0.5
        return super().move(action)


class InfoHoldsTheAction(Reach):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info | {"action": action}


class GoalMoves(DenseReach):
    def move(self, action):
        self.goal = (self.goal + np.float32(0.01)).clip(-1, 1)
        return super().move(action)


class NewGoalOnSuccess(Reach):
    def step(self, action):
        observation, *rest = super().step(action)
        if rest[-1]["is_success"]:
            self.goal = -self.goal
            observation = self.observe()
        return observation, rest[0], False, rest[1] or rest[2], rest[3]

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) & False


class GoalFromOtherGenerator(Reach):
    def draw_start(self):
        position, _ = super().draw_start()
        goal = position
        while self.is_success(position, goal):  # otherwise `reset` would draw the position again too
            goal = np.random.default_rng().uniform(-1, 1, 2).astype(np.float32)
        return np.stack([position, goal])


class StartFromOtherGenerator(Reach):
    def draw_start(self):
        _, goal = super().draw_start()
        return np.stack([np.random.default_rng().uniform(-1, 1, 2).astype(np.float32), goal])


class IgnoresSeed(Reach):
    def reset(self, *, seed=None, options=None):
        return super().reset()


class UnseededDynamics(Reach):
    def move(self, action):
        return super().move(action + np.random.default_rng().normal(0, 0.1, 2))


class SeedsTheGlobalGenerator(Reach):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002 - the fault
        return super().reset(seed=seed)

    def move(self, action):
        return super().move(action + np.random.normal(0, 0.1, 2))  # noqa: NPY002 - the fault


class CarriesStateOver(Reach):
    def draw_start(self):
        position, goal = super().draw_start()
        return np.stack([getattr(self, "position", position), goal])


class SharesStateBetweenCopies(Reach):
    wind = [0.0]  # noqa: RUF012 - the fault: all environments share the list

    def move(self, action):
        self.wind[0] = (self.wind[0] + 0.01) % 0.1
        return super().move(action + self.wind[0])


class RaggedInfo(Reach):
    def inform(self, observation):
        return super().inform(observation) | {"path": np.zeros(self.elapsed)}


class NoneOrDictInfo(Reach):
    def inform(self, observation):
        return super().inform(observation) | {"contact": {"force": 1.0} if self.elapsed % 2 else None}


class IntegerThenFloatInfo(Reach):
    def inform(self, observation):
        return super().inform(observation) | {"cost": 0.5 if self.elapsed % 3 == 0 else 0}


class UnderscoredInfoKey(Reach):
    def inform(self, observation):
        return super().inform(observation) | {"cost": 0.25, "_cost": 0.5}


FAULTS = [
    (NoFlag, "GE201"),
    (FlagWithOtherRadius, "GE202"),
    (FlagAlwaysFalse, "GE202"),
    (FlagOneStepLate, "GE202"),
    (FlagIsFloat, "GE203"),
    (FlagNamedSuccess, "GE203"),
    (NoFlagAtReset, "GE203"),
    (NoComputeTerminated, "GE204"),
    (TerminationNeverRelabeled, "GE205"),
    (TerminationWithOtherRadius, "GE205"),
    (TerminationNotImplemented, "GE205"),
    (OneTerminationForABatch, "GE206"),
    (TerminationOfAllRowsTogether, "GE206"),
    (TerminationRaisesOnBatches, "GE206"),
    (StartsSolved, "GE207"),
    (ReusesArrays, "GE301"),
    (ReusesDict, "GE301"),
    (ReusesInfo, "GE301"),
    (GrowsListInInfo, "GE301"),
    (ReturnsItsGoal, "GE302"),
    (GoalIsViewOfObservation, "GE302"),
    (ChangesTheAction, "GE302"),
    (InfoHoldsTheAction, "GE302"),
    (GoalMoves, "GE303"),
    (NewGoalOnSuccess, "GE303"),
    (GoalFromOtherGenerator, "GE401"),
    (StartFromOtherGenerator, "GE401"),
    (IgnoresSeed, "GE401"),
    (UnseededDynamics, "GE401"),
    (SeedsTheGlobalGenerator, "GE401"),
    (CarriesStateOver, "GE401"),
    (SharesStateBetweenCopies, "GE401"),
    (RaggedInfo, "GE501"),
    (NoneOrDictInfo, "GE501"),
    (IntegerThenFloatInfo, "GE501"),
    (UnderscoredInfoKey, "GE501"),
]
