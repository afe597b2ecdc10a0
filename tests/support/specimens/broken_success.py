"""Specimens with wrong success flags and terminations (rules GE2xx), and correct neighbors of these."""

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.support.specimens.reach import (
    DenseReach,
    NeverTerminates,
    Reach,
    Specimen,
    from_infos,
    goal_dict,
    wrong_end,
    wrong_info,
)

NoFlag = wrong_info("GE201", "NoFlag", lambda env, info: {})
wrong_info("GE202", "FlagAlwaysFalse", lambda env, info: {"is_success": False})
FlagIsFloat = wrong_info("GE203", "FlagIsFloat", lambda env, info: {"is_success": float(info["is_success"])})
wrong_info("GE203", "FlagNamedSuccess", lambda env, info: {"success": info["is_success"]})
wrong_info("GE203", "FlagIsAText", lambda env, info: {"is_success": "yes" if info["is_success"] else "no"})
wrong_info("GE203", "NoFlagAtReset", lambda env, info: info if env.elapsed else {})


class FlagOfLastEpisode(Reach, breaks="GE202"):
    succeeded = False

    def inform(self, observation):
        before, self.succeeded = self.succeeded, super().inform(observation)["is_success"]
        return {"is_success": before if self.elapsed == 0 else self.succeeded}


class FlagOnlyIfTrueInTheMiddle(DenseReach, breaks="GE203"):
    """Success does not end the episode, and the episode has no limit."""

    horizon = 10**9

    def inform(self, observation):
        return {key: value for key, value in super().inform(observation).items() if value}


class EndsBySuccess(Reach):
    """Success terminates episodes; compute_terminated plays no role."""

    def terminated(self, observation, info):
        return info["is_success"]


class NoComputeTerminated(EndsBySuccess, breaks="GE204"):
    compute_terminated = None


def without_implementation(env, achieved_goal, desired_goal, info):
    raise NotImplementedError


class NeverEndsByItself(DenseReach):
    def terminated(self, observation, info):
        return False


wrong_end("GE205", "TerminationNeverRelabeled", lambda env, a, d, _: a[..., 0] > 9, EndsBySuccess)
wrong_end("GE205", "TerminationWithOtherRadius", lambda env, a, d, _: env.distance(a, d) < 0.5, EndsBySuccess)
wrong_end("GE205", "TerminationNotImplemented", without_implementation, NeverEndsByItself)
wrong_end("GE206", "OneTerminationForABatch", lambda *call: False, DenseReach)
wrong_end("GE206", "TerminationRaisesOnBatches", lambda env, a, d, _: bool(env.is_success(a, d)))


class TerminatesBeforeSuccess(Reach, breaks="GE205"):
    """Episodes terminate at twice the distance of success."""

    def terminated(self, observation, info):
        return bool(self.distance(self.position, self.goal) < 2 * self.radius)


class TerminationOfAHundredRows(Reach, breaks="GE206"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        reached = self.is_success(achieved_goal, desired_goal)
        return reached[:100] if np.ndim(reached) else reached


class TerminationFailsForManyRows(Reach, breaks="GE206"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        if np.ndim(achieved_goal) > 1 and len(achieved_goal) > 1000:
            raise MemoryError("more than 1000 goals")
        return self.is_success(achieved_goal, desired_goal)


class TerminationOfTheEnvironments(Specimen, SyncVectorEnv, breaks="GE206"):
    """A batch with a row for each environment gets the last terminations of the environments."""

    count = 5  # no other batch of the checker has this size

    def __init__(self):
        super().__init__([Reach] * self.count, autoreset_mode=AutoresetMode.NEXT_STEP)
        self.last = np.zeros(self.count, bool)

    def step(self, actions):
        observations, rewards, self.last, *returned = super().step(actions)
        return observations, rewards, self.last.copy(), *returned

    def compute_terminated(self, achieved_goal, desired_goal, info):
        if len(achieved_goal) == self.count:
            return self.last.copy()
        return self.envs[0].compute_terminated(achieved_goal, desired_goal, info)


class StartsSolved(Reach, breaks="GE207"):
    may_start_solved = True

    def draw_start(self):
        start = self.np_random.uniform(-1, 1, 2)
        goal = start + self.np_random.uniform(-0.1, 0.1, 2)
        return np.stack([start, goal]).clip(-1, 1).astype(np.float32)


class RadiusInMillimetres(Reach, breaks="GE207"):
    radius = 250.0
    may_start_solved = True


class TerminatesAtTheHorizon(Reach, breaks="GE208"):
    def terminated(self, observation, info):
        return info["is_success"] or self.elapsed >= self.horizon


class SuccessTruncates(Reach, breaks="GE208"):
    compute_terminated = None

    def terminated(self, observation, info):
        return False

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated or info["is_success"], info


wrong_end("GE110", "TerminationReadsTheClock", lambda env, a, d, _: env.is_success(a, d) | (env.elapsed > 19))
wrong_end("GE110", "TerminationReadsTheFlag", lambda *call: from_infos("is_success", call[-1], False))


class TerminationReadsTheOldGoal(Reach, breaks="GE110"):
    """The info contains the desired goal of the recorded step."""

    def inform(self, observation):
        return super().inform(observation) | {"goal": observation["desired_goal"].copy()}

    def compute_terminated(self, achieved_goal, desired_goal, info):
        goal = from_infos("goal", info, np.full(2, 9.0))
        return self.is_success(achieved_goal, goal) if len(achieved_goal) else np.zeros(0, bool)


class Lost(NeverTerminates, breaks="GE210"):
    """The episode terminates far from the goal, which compute_terminated does not return."""

    def terminated(self, observation, info):
        return bool(self.distance(self.position, self.goal) > 1.3)


class LeavesTheGoalOfAll(Lost):
    """The goal of all episodes is the center, so the end depends on the position only."""

    def draw_start(self):
        return np.stack([self.np_random.uniform(-1, 1, 2), np.zeros(2)]).astype(self.dtype)


class LeavesTheSquare(NeverTerminates):
    """The episode terminates near the edge of the square, wherever the goal is."""

    def terminated(self, observation, info):
        return bool(np.abs(self.position).max() > 0.9) and not info["is_success"]


class GoalInMillimeters(NeverTerminates, breaks="GE211"):
    """The desired goal is in another unit than the achieved goal."""

    horizon = 8

    def make_space(self):
        return goal_dict(spaces.Box(-1e3, 1e3, (2,), self.dtype))

    def draw_start(self):
        start, goal = super().draw_start()
        return start, 1000 * goal


class FarGoals(NeverTerminates):
    """No random episode reaches its goal, but an episode of moves in one direction does."""

    def make_space(self):
        square = spaces.Box(-9, 9, (2,), self.dtype)
        return goal_dict(square, square)

    def move(self, action):
        return (self.position + 0.2 * np.clip(action, -1, 1)).astype(self.dtype)

    def draw_start(self):
        angle = self.np_random.uniform(0, 2 * np.pi)
        return np.zeros(2, self.dtype), 3.5 * np.array([np.cos(angle), np.sin(angle)], self.dtype)


class TouchesSeldom(FarGoals):
    """Random actions seldom move the object, so that its moves do not show how far it can get."""

    def move(self, action):
        return super().move(action / 50 if self.elapsed % 10 == 3 else action * 0)
