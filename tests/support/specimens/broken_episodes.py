"""Specimens with faults in success flags, terminations, memory, seeds or infos."""

import numpy as np

from tests.support.specimens.reach import DenseReach, NeverTerminates, Reach


class NoFlag(Reach, breaks="GE201"):
    def inform(self, observation):
        return {}


class FlagWithOtherRadius(Reach, breaks="GE202"):
    def inform(self, observation):
        distance = self.distance(observation["achieved_goal"], observation["desired_goal"])
        return {"is_success": bool(distance < 0.35)}


class FlagAlwaysFalse(Reach, breaks="GE202"):
    def inform(self, observation):
        return {"is_success": False}


class FlagIsFloat(Reach, breaks="GE203"):
    def inform(self, observation):
        return {"is_success": float(super().inform(observation)["is_success"])}


class FlagNamedSuccess(Reach, breaks="GE203"):
    def inform(self, observation):
        return {"success": super().inform(observation)["is_success"]}


class NoFlagAtReset(Reach, breaks="GE203"):
    def inform(self, observation):
        return super().inform(observation) if self.elapsed else {}


class NoComputeTerminated(Reach, breaks="GE204"):
    compute_terminated = None

    def terminated(self, observation, info):
        return info["is_success"]


class TerminationNeverRelabeled(Reach, breaks="GE205"):
    def terminated(self, observation, info):
        return info["is_success"]

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return np.zeros(np.shape(achieved_goal)[:-1], bool)


class TerminationWithOtherRadius(Reach, breaks="GE205"):
    def terminated(self, observation, info):
        return info["is_success"]

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.distance(achieved_goal, desired_goal) < 0.5


class TerminationNotImplemented(DenseReach, breaks="GE205"):
    def terminated(self, observation, info):
        return False

    def compute_terminated(self, achieved_goal, desired_goal, info):
        raise NotImplementedError


class OneTerminationForABatch(DenseReach, breaks="GE206"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return False


class TerminationRaisesOnBatches(Reach, breaks="GE206"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return True if self.is_success(achieved_goal, desired_goal) else False  # noqa: SIM210


class StartsSolved(Reach, breaks="GE207"):
    may_start_solved = True

    def draw_start(self):
        start = self.np_random.uniform(-1, 1, 2)
        goal = start + self.np_random.uniform(-0.1, 0.1, 2)
        return np.stack([start, goal]).clip(-1, 1).astype(np.float32)


class ReusesArrays(Reach, breaks="GE301"):
    def move(self, action):
        self.position += super().move(action) - self.position
        return self.position

    def observe(self):
        return super().observe() | {"achieved_goal": self.position}


class ReusesDict(Reach, breaks="GE301"):
    def observe(self):
        if not hasattr(self, "returned"):
            self.returned = {}
        self.returned.update(super().observe())
        return self.returned


class ReusesInfo(Reach, breaks="GE301"):
    def inform(self, observation):
        if not hasattr(self, "info"):
            self.info = {}
        self.info.update(super().inform(observation), elapsed=self.elapsed)
        return self.info


class GrowsListInInfo(Reach, breaks="GE301"):
    def inform(self, observation):
        self.path = [*self.path[:0], 0.0] if self.elapsed == 0 else self.path
        self.path.append(float(self.position[0]))
        return super().inform(observation) | {"path": self.path}

    path = ()


class ReturnsItsGoal(Reach, breaks="GE302"):
    def observe(self):
        return super().observe() | {"desired_goal": self.goal}


class GoalIsViewOfObservation(Reach, breaks="GE302"):
    def observe(self):
        position = self.position.copy()
        return super().observe() | {"observation": position, "achieved_goal": position[:]}


class ChangesTheAction(Reach, breaks="GE302"):
    def move(self, action):
        action *= 0.5
        return super().move(action)


class InfoHoldsTheAction(Reach, breaks="GE302"):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info | {"action": action}


class GoalMoves(DenseReach, breaks="GE303"):
    def move(self, action):
        self.goal = (self.goal + np.float32(0.01)).clip(-1, 1)
        return super().move(action)


class NewGoalOnSuccess(NeverTerminates, breaks="GE303"):
    def step(self, action):
        observation, *rest = super().step(action)
        if rest[-1]["is_success"]:
            self.goal = -self.goal
            observation = self.observe()
        return observation, *rest


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


class SeedsTheGlobalGenerator(Reach, breaks="GE401"):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002 - the fault
        return super().reset(seed=seed)

    def move(self, action):
        return super().move(action + np.random.normal(0, 0.1, 2))  # noqa: NPY002 - the fault


class CarriesStateOver(Reach, breaks="GE401"):
    def draw_start(self):
        position, goal = super().draw_start()
        return np.stack([getattr(self, "position", position), goal])


class SharesStateBetweenCopies(Reach, breaks="GE401"):
    wind = [0.0]  # noqa: RUF012 - the fault: all environments share the list

    def move(self, action):
        self.wind[0] = (self.wind[0] + 0.01) % 0.1
        return super().move(action + self.wind[0])


class RaggedInfo(Reach, breaks="GE501"):
    def inform(self, observation):
        return super().inform(observation) | {"path": np.zeros(self.elapsed)}


class NoneOrDictInfo(Reach, breaks="GE501"):
    def inform(self, observation):
        return super().inform(observation) | {"contact": {"force": 1.0} if self.elapsed % 2 else None}


class IntegerThenFloatInfo(Reach, breaks="GE501"):
    def inform(self, observation):
        return super().inform(observation) | {"cost": 0.5 if self.elapsed % 3 == 0 else 0}


class UnderscoredInfoKey(Reach, breaks="GE501"):
    def inform(self, observation):
        return super().inform(observation) | {"cost": 0.25, "_cost": 0.5}
