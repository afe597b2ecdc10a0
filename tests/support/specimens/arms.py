"""Arms and pushed objects: achieved goals that are stale or hidden, and correct neighbors of such faults."""

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import Reach, goal_dict


class Arm(Reach):
    """An arm of three joints; the observation has their angles, and the goal is the place of the tip."""

    may_start_solved = True
    fixed_start = False
    noise = 0.0

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-1, 1, (3,), np.float32)

    def make_space(self):
        wide = spaces.Box(-9, 9, self.joints(np.zeros(3)).shape, np.float64)
        square = spaces.Box(-1, 1, (2,), np.float64)
        return goal_dict(square, wide)

    def place(self, angles):
        angles = np.cumsum(angles)
        return np.array([np.cos(angles).mean(), np.sin(angles).mean()])

    def joints(self, angles):
        return angles.copy()

    def draw_start(self):
        self.last = np.zeros(3)
        self.position = np.full(3, 0.3) if self.fixed_start else self.np_random.uniform(-1, 1, 3)
        self.tip = self.tip_at_reset()
        return self.position, self.place(self.np_random.uniform(-1, 1, 3))

    def tip_at_reset(self):
        return self.place(self.position)

    def move(self, action):
        moved = (self.position + self.effect(np.asarray(action, float))).clip(-1.5, 1.5)
        self.tip = self.tip_of(self.position, moved)
        return moved

    def effect(self, action):
        return 0.2 * action

    def tip_of(self, before, after):
        return self.place(after)

    def observe(self):
        joints = self.joints(self.position)
        joints = joints + self.np_random.normal(0, self.noise, joints.shape) if self.noise else joints
        return {"observation": joints, "achieved_goal": self.tip.copy(), "desired_goal": self.goal.copy()}


class ArmWithoutForward(Arm, breaks="GE305"):
    """The example of the rule: each episode begins with the tip of the zero pose, as after mj_resetData."""

    def tip_at_reset(self):
        return self.place(np.zeros(3))


class ArmOneStepLate(Arm, breaks="GE305"):
    """The tip is one step late; it is not a simple function of the angles."""

    def tip_of(self, before, after):
        return self.place(before)


class Swing(Arm):
    """The observation has velocities, too."""

    def joints(self, angles):
        return np.concatenate([angles, getattr(self, "last", np.zeros(3))])

    def effect(self, action):
        self.last = 0.8 * self.last + 0.1 * action
        return self.last


class SwingByEuler(Swing):
    """Positions change by the last velocity, so that no tip moves in the first step."""

    def effect(self, action):
        last, self.last = self.last, 0.8 * self.last + 0.1 * action
        return last


class ArmWithDelay(Swing):
    """The last action takes effect, and is observed."""

    def effect(self, action):
        last, self.last = self.last, action
        return 0.2 * last


class NoisyArmWithDelay(ArmWithDelay):
    noise = 0.02


class ArmWithOneStart(Arm):
    fixed_start = True


class ThrownArm(Arm):
    """The first step moves the arm further than all others."""

    def effect(self, action):
        return 0.2 * action * 4.0 * 0.3**self.elapsed


class Pushes(Reach):
    """A hand pushes an object; the goal is a place of the object."""

    horizon = 8
    low, high, dtype = -1, 1, np.float64

    def make_space(self):
        def box(size):
            return spaces.Box(self.low, self.high, (size,), self.dtype)

        return goal_dict(box(2), box(len(self.seen(np.zeros(2), np.zeros(2)))))

    def seen(self, hand, thing):
        return np.concatenate([hand, thing])

    def draw_start(self):
        self.thing, hand, goal = self.np_random.uniform(-1, 1, (3, 2))
        return hand, goal

    def move(self, action):
        hand = super().move(action)
        if np.linalg.norm(hand - self.thing) < 0.2:
            self.thing = (self.thing + hand - self.position).clip(-1, 1)
        return hand

    def observe(self):
        seen = self.seen(self.position, self.thing).astype(self.dtype)
        return {"observation": seen, "achieved_goal": self.thing.copy(), "desired_goal": self.goal.copy()}


class HidesTheObject(Pushes, breaks="GE306"):
    """The observation is the hand only."""

    def seen(self, hand, thing):
        return hand.copy()


class HidesOneCoordinate(Pushes, breaks="GE306"):
    def seen(self, hand, thing):
        return np.array([*hand, thing[0]])


class PushesOnGrid(Pushes):
    """Hand and object are in cells of a grid."""

    low, high, dtype = 0, 3, np.int64

    def draw_start(self):
        self.thing, hand, goal = self.np_random.integers(0, 4, (3, 2))
        return hand, goal

    def move(self, action):
        hand = (self.position + np.round(action).astype(int)).clip(0, 3)
        if (hand == self.thing).all():
            self.thing = (self.thing + hand - self.position).clip(0, 3)
        return hand


class HidesTheObjectOnGrid(PushesOnGrid, breaks="GE306"):
    def seen(self, hand, thing):
        return hand.copy()


class PushesSeldom(Pushes):
    """The object always starts at the same place, and is seldom moved, but is observed."""

    def draw_start(self):
        hand, goal = super().draw_start()
        self.thing = np.array([0.9, 0.9])
        return hand, goal


class NeverPushes(PushesSeldom):
    """The object never moves, so that it cannot be judged whether the observation shows it."""

    def seen(self, hand, thing):
        return hand.copy()

    def move(self, action):
        return Reach.move(self, action)


CORRECT_ARMS = [
    Arm, Swing, SwingByEuler, ArmWithDelay, NoisyArmWithDelay, ArmWithOneStart, ThrownArm,
    Pushes, PushesOnGrid, PushesSeldom, NeverPushes,
]  # fmt: skip
