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


class ArmWithoutForwardFromOneStart(ArmWithoutForward, breaks="GE305"):
    """Each episode begins with the same angles, and with the same wrong tip."""

    fixed_start = True


class ArmWithTipOfAnotherPose(ArmWithoutForwardFromOneStart, breaks="GE305"):
    def tip_at_reset(self):
        return self.place(np.array([0.3, 0.3, 1.0]))


class Swing(Arm):
    """The observation has velocities, too."""

    def joints(self, angles):
        return np.concatenate([angles, getattr(self, "last", np.zeros(3))])

    def effect(self, action):
        self.last = 0.8 * self.last + 0.1 * action
        return self.last


class SwingOneStepLate(Swing, breaks="GE305"):
    """The late tip follows from new angles and velocities too, but is a simpler function of old angles."""

    def tip_of(self, before, after):
        return self.place(before)


class ObservesOldAngles(Arm, breaks="GE305"):
    """The angles are read before the step."""

    def joints(self, angles):
        return getattr(self, "before", angles).copy()

    def tip_at_reset(self):
        self.before = self.position
        return super().tip_at_reset()

    def tip_of(self, before, after):
        self.before = before
        return self.place(after)


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


class LosesTheTip(Arm, breaks="GE309"):
    """A camera that does not find the tip returns zeros, for up to three steps."""

    hidden = 0

    def tip_of(self, before, after):
        self.hidden = self.hidden - 1 if self.hidden else self.np_random.choice([0, 0, 0, 3])
        if self.hidden:
            return np.zeros(2)
        return self.place(after)

    def tip_at_reset(self):
        self.hidden = 0
        return super().tip_at_reset()


class RepeatsEachTip(Arm, breaks="GE305"):
    """The camera is half as fast as the joints, so that each second tip is the last one."""

    def tip_of(self, before, after):
        return self.place(after) if self.elapsed % 2 else self.tip


class TipOfCells(Arm):
    """The goal is the cell of the tip, so it stays the same while the tip moves within a cell."""

    def place(self, angles):
        return np.round(2 * super().place(angles)) / 2


class JumpsHome(Arm):
    """Every tenth step moves the arm to one pose; it does not come back in the next step."""

    def move(self, action):
        if self.elapsed % 10 == 9:
            self.tip = self.place(np.ones(3))
            return np.ones(3)
        return super().move(action)


class ArmWithOneStart(Arm):
    fixed_start = True


class SwingWithOneStart(Swing):
    fixed_start = True


class Glides(Reach):
    """A point with a velocity; the observation has both."""

    shown = 1.0

    def make_space(self):
        box = spaces.Box(-9, 9, (4,), np.float64)
        return goal_dict(spaces.Box(-9, 9, (2,), np.float64), box)

    def draw_start(self):
        self.velocity = np.zeros(2)
        start, goal = self.np_random.uniform(-1, 1, (2, 2))
        self.last = start
        return start, goal

    def move(self, action):
        self.last = self.position
        self.velocity = 0.8 * self.velocity + 0.05 * np.asarray(action, float)
        return self.position + self.velocity

    def goal_of(self, position):
        return np.array(position, float)

    def observe(self):
        seen = np.concatenate([self.shown * self.position, self.velocity])
        return super().observe() | {"observation": seen, "achieved_goal": self.achieved()}

    def achieved(self):
        return self.position.copy()


class GlidesOneStepLate(Glides, breaks="GE305"):
    """The achieved goal is that of the last state: the position minus the velocity."""

    def achieved(self):
        return self.last.copy()


class GlidesLateInOtherUnits(GlidesOneStepLate, breaks="GE305"):
    shown = 0.01


class FallsFromOneHeight(Glides):
    """Each episode begins in the air, at the same place."""

    def draw_start(self):
        _, goal = super().draw_start()
        return np.array([0.0, 1.0]), goal

    def move(self, action):
        self.velocity[1] -= 0.05
        moved = super().move(action)
        return np.array([moved[0], max(moved[1], 0)])


class GlidesWithHistory(Glides):
    """The observation has the last position, too."""

    def observe(self):
        return super().observe() | {"observation": np.concatenate([self.position, self.last])}


class GlidesToAPointAhead(Glides):
    """The goal is a place that depends on the velocity."""

    def achieved(self):
        return self.position + self.velocity


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


class PushesByJoints(Pushes):
    """The observation has positions of joints and, derived from them, the tip and the distance to it."""

    low, high = -9, 9

    def seen(self, hand, thing):
        tip = np.array([2.0, 2.0]) + hand
        return np.concatenate([hand, thing, tip, thing - tip])


class PushesWithoutForward(PushesByJoints, breaks="GE305"):
    """The derived positions are 0 at reset, and so is the achieved goal."""

    def observe(self):
        observation = super().observe()
        if not self.elapsed:
            observation["observation"][4:], observation["achieved_goal"] = 0, np.zeros(2)
        return observation


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
    Arm, TipOfCells, JumpsHome, Swing, SwingByEuler, ArmWithDelay, NoisyArmWithDelay,
    ArmWithOneStart, ThrownArm, SwingWithOneStart,
    Glides, FallsFromOneHeight, GlidesWithHistory, GlidesToAPointAhead,
    Pushes, PushesByJoints, PushesOnGrid, PushesSeldom, NeverPushes,
]  # fmt: skip
