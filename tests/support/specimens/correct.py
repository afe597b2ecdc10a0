"""Correct environments, for which a checker must report nothing."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.support.bundled import VARIANTS
from tests.support.specimens.reach import DenseReach, Reach, from_infos
from tests.support.specimens.unusual_goals import GoalsInPairs, GridGoals, ImageGoals, OneDimensionalGoals


class NegativeZero(Reach):
    """The reward of success is -0.0, as in panda-gym."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(~self.is_success(achieved_goal, desired_goal)).astype(np.float32)

    def is_success(self, achieved_goal, desired_goal):
        return np.asarray(super().is_success(achieved_goal, desired_goal))


class NumpyScalars(Reach):
    """Rewards and flags are NumPy scalars."""

    def reward(self, observation, info):
        return np.float32(super().reward(observation, info))

    def terminated(self, observation, info):
        return np.bool_(super().terminated(observation, info))

    def inform(self, observation):
        return {"is_success": np.bool_(super().inform(observation)["is_success"])}


class ComputedInFloat64(DenseReach):
    """States are float64 and observations float32, as in Fetch and parking."""

    def draw_start(self):
        return self.np_random.uniform(-1, 1, (2, 2))

    def move(self, action):
        return (self.position + 0.2 * action).clip(-1, 1)

    def observe(self):
        return {key: value.astype(np.float32) for key, value in super().observe().items()}

    def reward(self, observation, info):
        return float(self.compute_reward(self.position, self.goal, info))


class GoalAsParameterName(Reach):
    """The second parameter is named ``goal``, as in Fetch."""

    def compute_reward(self, achieved_goal, goal, info):
        return super().compute_reward(achieved_goal, goal, info)


class NoTermination(Reach):
    """Success does not terminate the episode, and compute_terminated is missing, as in old Fetch versions."""

    compute_terminated = None

    def terminated(self, observation, info):
        return False


class NeverEnds(NoTermination):
    horizon = 10**9


class CostInInfo(Reach):
    """The reward depends on a cost in the info, and works without the cost."""

    cost = 0.0

    def move(self, action):
        self.cost = 0.1 * float(np.square(action).sum())
        return super().move(action)

    def inform(self, observation):
        return super().inform(observation) | {"cost": self.cost if self.elapsed else 0.0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return super().compute_reward(achieved_goal, desired_goal, info) - from_infos("cost", info, 0.0)


class NestedObservation(Reach):
    """The observation is a dict with a tuple in it."""

    def make_space(self):
        space = super().make_space()
        point = space["observation"]
        nested = spaces.Dict({"position": point, "sensors": spaces.Tuple([point, spaces.Discrete(100)])})
        return spaces.Dict(space.spaces | {"observation": nested})

    def observe(self):
        sensors = (self.position.copy(), self.elapsed)
        return super().observe() | {"observation": {"position": self.position.copy(), "sensors": sensors}}


class RewardIsArrayOfNoAxes(Reach):
    def reward(self, observation, info):
        return np.asarray(super().reward(observation, info))


class FixedGoal(Reach):
    """The goal never changes, and is returned as a read-only array."""

    def draw_start(self):
        goal = np.zeros(2, np.float32)
        goal.flags.writeable = False
        return super().draw_start()[0], goal

    def observe(self):
        return super().observe() | {"desired_goal": self.goal}


class LargeInfo(Reach):
    """Infos of many kinds, all of which vector environments batch without loss."""

    def inform(self, observation):
        bodies = np.empty(2, dtype=object)
        bodies[:] = [np.arange(2), np.arange(self.elapsed)]
        return super().inform(observation) | {
            "distance": float(self.elapsed),
            "contacts": np.zeros((2, 3), np.float32),
            "nothing": None,
            "bodies": bodies,
            "nested": {"phase": "reach", "step": self.elapsed},
            "TimeLimit.truncated": False,
            **({"first": 1} if self.elapsed == 0 else {}),
        }


def wrapped():
    return gym.wrappers.RecordEpisodeStatistics(gym.wrappers.TimeLimit(Reach(), 10))


def vector(mode):
    def make():
        return SyncVectorEnv([Reach] * 3, autoreset_mode=mode)

    make.__name__ = f"vector-{mode.value}"
    return make


def vector_of_bits():
    return gym.make_vec("her_envs/BitFlipping-v0", num_envs=3, vectorization_mode="sync", n_bits=3)


def made(env_id, options):
    return lambda: gym.make(env_id, **options)


OWN = [
    Reach, DenseReach, NegativeZero, NumpyScalars, ComputedInFloat64,
    GoalAsParameterName, NoTermination, NeverEnds, CostInInfo,
    GridGoals, ImageGoals, NestedObservation, GoalsInPairs, OneDimensionalGoals,
    RewardIsArrayOfNoAxes, FixedGoal, LargeInfo,
    wrapped, *map(vector, AutoresetMode), vector_of_bits,
]  # fmt: skip

CORRECT = {factory.__name__: factory for factory in OWN} | {
    f"{env_id}-{options | {'reward_type': reward_type}}": made(env_id, options | {"reward_type": reward_type})
    for i, (env_id, options) in enumerate(VARIANTS)
    for reward_type in ("sparse", "dense")[i % 2 :: 2]
}
