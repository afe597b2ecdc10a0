"""Specimens with faults in goals and in the memory of returned objects (rules GE3xx); more are in `arms`."""

from types import SimpleNamespace

import numpy as np
from gymnasium import spaces

from tests.support.cameras import image_space, picture
from tests.support.specimens.reach import SQUARE, DenseReach, NeverTerminates, Reach, goal_dict


class ReusesArrays(Reach, breaks="GE301"):
    def move(self, action):
        self.position += super().move(action) - self.position
        return self.position

    def observe(self):
        return super().observe() | {"achieved_goal": self.position}


class ReusesDict(Reach, breaks="GE301"):
    def as_returned(self, observation):
        self.__dict__.setdefault("last", {}).update(observation)
        return self.last


class ReusesInfo(Reach, breaks="GE301"):
    def inform(self, observation):
        self.__dict__.setdefault("info", {}).update(super().inform(observation), elapsed=self.elapsed)
        return self.info


class GrowsListInInfo(Reach, breaks="GE301"):
    def inform(self, observation):
        self.path = self.path if self.elapsed else [0.0]
        self.path.append(float(self.position[0]))
        return super().inform(observation) | {"path": self.path}


class ReturnsItsGoal(Reach, breaks="GE302"):
    def observe(self):
        return super().observe() | {"desired_goal": self.goal}


class GoalIsViewOfObservation(Reach, breaks="GE302"):
    def as_returned(self, observation):
        return observation | {"achieved_goal": observation["observation"][:]}


class ChangesTheAction(Reach, breaks="GE302"):
    def move(self, action):
        action *= 0.5
        return super().move(action)


class InfoHoldsTheAction(Reach, breaks="GE302"):
    def step(self, action):
        *returned, info = super().step(action)
        return *returned, info | {"action": action}


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


class Relative(Reach):
    """The observation is the position and the values of ``extra``."""

    def make_space(self):
        size = 2 + len(self.extra(np.zeros(2), np.ones(2)))
        return goal_dict(SQUARE, spaces.Box(-99, 99, (size,), np.float32))

    def observe(self):
        values = [*self.position, *self.extra(self.position, self.goal)]
        return super().observe() | {"observation": np.float32(values)}


class ObservesTheDifference(Relative, breaks="GE304"):
    def extra(self, position, goal):
        return goal - position


class ObservesTheGoal(Relative, breaks="GE304"):
    def extra(self, position, goal):
        return goal


class ObservesTheDistance(Relative, DenseReach, breaks="GE304"):
    def extra(self, position, goal):
        return [np.linalg.norm(goal - position)]


class ObservesTheReturn(Relative, DenseReach, breaks="GE304"):
    sum_of_rewards = 0.0

    def extra(self, position, goal):
        return [self.sum_of_rewards]

    def draw_start(self):
        self.sum_of_rewards = 0.0
        return super().draw_start()

    def move(self, action):
        moved = super().move(action)
        self.sum_of_rewards += self.compute_reward(moved, self.goal, {})
        return moved


class ObservesTheReturnOfATask(ObservesTheReturn, breaks="GE304"):
    """The goal is an attribute of a task object."""

    goal = property(
        lambda self: self.task.goal, lambda self, goal: setattr(self, "task", SimpleNamespace(goal=goal))
    )


class GoalIsZeroAtReset(Reach, breaks="GE305"):
    """The achieved goal is computed by step() only, as positions in MuJoCo without mj_forward."""

    def observe(self):
        return super().observe() | ({} if self.elapsed else {"achieved_goal": np.zeros(2, np.float32)})


class ReadsOneComponent(Reach, breaks="GE310"):
    def move(self, action):
        return super().move(np.array([action[0], 0.0]))


class Photographed(Reach):
    """The observation has the picture of a camera, and that of the step before."""

    is_late = False

    def make_space(self):
        return goal_dict(SQUARE, spaces.Dict({name: image_space(60, 60, 1) for name in self.names}))

    names = ("camera", "last")

    def observe(self):
        now = picture(self.position, 60, 60)
        self.before, self.now = (self.now, now) if self.elapsed else (now, now)
        pictures = {"camera": self.before if self.is_late else now, "last": self.before}
        return super().observe() | {"observation": {name: pictures[name].copy() for name in self.names}}


class CameraOneStepLate(Photographed, breaks="GE305"):
    is_late, names = True, ("camera",)


class Diverges(Reach, breaks="GE307"):
    """In some steps, the simulator finds a bad acceleration, and goes back to its initial state."""

    kind = 6  # mjWARN_BADQACC

    def draw_start(self):
        self.data = SimpleNamespace(warning=SimpleNamespace(number=np.zeros(8, int)))
        return super().draw_start()

    def move(self, action):
        if self.elapsed == 7:
            self.data.warning.number[self.kind] += 1
            return np.zeros(2, np.float32)
        return super().move(action)


class Docks(NeverTerminates, breaks="GE308"):
    """A docking mechanism draws the point to the goal when it is near."""

    def move(self, action):
        moved = super().move(action)
        return self.goal.copy() if self.distance(moved, self.goal) < 0.4 else moved


class StopsAtTheGoal(Reach):
    """Correct: an action is repeated, but no longer than until the goal is reached and the episode ends."""

    def move(self, action):
        for _ in range(3):
            self.position = super().move(action)
            if self.is_success(self.position, self.goal):
                break
        return self.position
