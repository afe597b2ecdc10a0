"""Specimens that return values which recorders reject, or which relabeling misreads."""

from types import SimpleNamespace

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from tests.support.specimens.broken_steps import RepeatsTheLastSeed
from tests.support.specimens.broken_vectors import Reaches
from tests.support.specimens.correct import CostInInfo
from tests.support.specimens.reach import SQUARE, DenseReach, Reach, from_infos, goal_dict
from tests.support.specimens.unusual_goals import GoalFromPosition


class FurtherKey(Reach):
    """The observation has the further key ``more``, an element of the space ``more``."""

    more = SQUARE

    def make_space(self):
        return goal_dict(SQUARE, more=self.more)

    def value(self):
        return self.position.copy()

    def observe(self):
        return super().observe() | {"more": self.value()}


class TextInObservation(FurtherKey, breaks="GE009"):
    more = spaces.Text(20)

    def value(self):
        return "goright" if self.goal[0] > 0 else "goleft"


class TextAsGoal(GoalFromPosition, breaks="GE009"):
    goal_space = spaces.Text(5)

    def goal_of(self, position):
        return "right" if position[0] > 0 else "left"

    def is_success(self, achieved_goal, desired_goal):
        return np.asarray(achieved_goal) == np.asarray(desired_goal)


class ListOfObservations(Reaches, breaks="GE603"):
    kind = list

    def split(self, observations):
        rows = ({key: rows[i] for key, rows in observations.items()} for i in range(self.num_envs))
        return self.kind(rows)

    def reset(self, *, seed=None, options=None):
        observations, infos = super().reset(seed=seed, options=options)
        return self.split(observations), infos

    def step(self, actions):
        observations, *returned = super().step(actions)
        return self.split(observations), *returned


class ListOfInfos(Reaches, breaks="GE603"):
    """Infos are a list of dicts, as in Stable-Baselines3; the last observations are in these dicts."""

    def split(self, infos):
        rows = [{"is_success": bool(flag)} for flag in infos["is_success"]]
        for i in np.flatnonzero(infos.get("_final_obs", False)):
            flag = bool(infos["final_info"]["is_success"][i])
            rows[i] = {"is_success": flag, "terminal_observation": infos["final_obs"][i]}
        return rows

    def reset(self, *, seed=None, options=None):
        observations, infos = super().reset(seed=seed, options=options)
        return observations, self.split(infos)

    def step(self, actions):
        *returned, infos = super().step(actions)
        return *returned, self.split(infos)


class TerminatesBeforeSuccess(Reach, breaks="GE205"):
    """Episodes terminate at twice the distance of success."""

    factor = 2

    def terminated(self, observation, info):
        distance = self.distance(observation["achieved_goal"], observation["desired_goal"])
        return bool(distance < self.factor * self.radius)


class ReadsInfo(Reach):
    """The reward contains ``info["term"]``."""

    def inform(self, observation):
        info = super().inform(observation)
        return info | {"term": self.term(observation, info)}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return super().compute_reward(achieved_goal, desired_goal, info) + from_infos("term", info, 0.0)


class ProgressInInfo(ReadsInfo, breaks="GE110"):
    """The term is the distance by which the last step came closer to the recorded goal."""

    last = 0.0

    def term(self, observation, info):
        before, self.last = self.last, float(self.distance(self.position, self.goal))
        return before - self.last if self.elapsed else 0.0


class RowsRepeatTheirFirstEpisode(Reaches, breaks="GE405"):
    mode = AutoresetMode.NEXT_STEP
    single = RepeatsTheLastSeed


class FlagsAtTheReset(Reaches, breaks="GE606"):
    """In the row of a reset, the flags of the last step are returned again."""

    mode = AutoresetMode.NEXT_STEP

    def __init__(self):
        super().__init__()
        self.last = np.zeros((2, self.num_envs), bool)

    def step(self, actions):
        observations, rewards, *flags, infos = super().step(actions)
        repeated, self.last = self.last, np.array(flags)
        return observations, rewards, *(self.last | repeated), infos


class IgnoresTheMask(Reaches, breaks="GE606"):
    mode = AutoresetMode.DISABLED

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)


class ConcatenatesInItsOwnOrder(GoalFromPosition, breaks="GE121"):
    """The order of the keys in observations is not that of the space, in which buffers return goals."""

    line = spaces.Box(-1, 1, (1,), np.float32)
    goal_space = spaces.Dict({"x": line, "y": line})

    def goal_of(self, position):
        return {"y": position[1:].copy(), "x": position[:1].copy()}

    def is_success(self, achieved_goal, desired_goal):
        goals = [np.concatenate(list(goal.values()), axis=-1) for goal in (achieved_goal, desired_goal)]
        return self.distance(*(goal * [1, 3] for goal in goals)) < 0.4


class KeepsTheFirstGoal(Reach, breaks="GE402"):
    """All goals are close to the first one, which the first seed determines."""

    first = None

    def draw_start(self):
        start, goal = super().draw_start()
        self.first = goal if self.first is None else self.first
        return np.stack([start, 0.8 * self.first + 0.2 * goal])


class OnlyOwnGoals(Reach, breaks="GE115"):
    """Only four desired goals can be reached, so relabeled goals never are."""

    def draw_start(self):
        return np.stack([super().draw_start()[0], self.np_random.choice([-0.5, 0.5], 2).astype(np.float32)])

    def is_success(self, achieved_goal, desired_goal):
        is_own = (np.abs(desired_goal) == 0.5).all(axis=-1)
        return (self.distance(achieved_goal, desired_goal) < self.radius) & is_own


class RadiusInMillimetres(Reach, breaks="GE207"):
    radius = 250.0
    may_start_solved = True


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


class SuccessTruncates(Reach, breaks="GE208"):
    compute_terminated = None

    def terminated(self, observation, info):
        return False

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated or info["is_success"], info


class LosesTheCost(CostInInfo, breaks="GE113"):
    """The reward contains the cost of the action, unless infos are an array."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        infos = {} if isinstance(info, np.ndarray) else info
        return super().compute_reward(achieved_goal, desired_goal, infos)


class InfoFromTheGlobalGenerator(Reach, breaks="GE401"):
    def inform(self, observation):
        return super().inform(observation) | {"noise": self.noise()}

    def noise(self):
        return float(np.random.normal())  # noqa: NPY002 - the fault


class FlagOnlyIfTrueInTheMiddle(DenseReach, breaks="GE203"):
    """Success does not end the episode, and the episode has no limit."""

    horizon = 10**9

    def inform(self, observation):
        return {key: value for key, value in super().inform(observation).items() if value}
