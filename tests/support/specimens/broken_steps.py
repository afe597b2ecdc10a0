"""Specimens with faults in values of step(), in seeds of resets, and in wrappers."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from tests.support.specimens.broken_vectors import Reaches
from tests.support.specimens.reach import Reach, Specimen


class RewardHasARow(Reach, breaks="GE123"):
    def reward(self, observation, info):
        return np.array([super().reward(observation, info)])


class TruncatedIsAList(Reach, breaks="GE123"):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, [truncated], info


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


class SeedsAreZeroByDefault(Reaches, breaks="GE405"):
    single = SeedIsZeroByDefault


class OneSeedForAllRows(Reaches, breaks="GE605"):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed if seed is None else [seed] * self.num_envs, options=options)


class ReusesRewards(Reaches, breaks="GE301"):
    mode = AutoresetMode.NEXT_STEP

    def step(self, actions):
        observations, _, *returned = super().step(actions)
        return observations, self._rewards, *returned


class FlagIsAText(Reach, breaks="GE203"):
    def inform(self, observation):
        return {"is_success": "yes" if super().inform(observation)["is_success"] else "no"}


class GoalIsZeroAtReset(Reach, breaks="GE305"):
    """The achieved goal is computed by step() only, as positions in MuJoCo without mj_forward."""

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        observation["achieved_goal"] = np.zeros(2, np.float32)
        return observation, {"is_success": bool(self.is_success(np.zeros(2), self.goal))}


class ChangesGoals(Specimen, gym.ObservationWrapper):
    """A wrapper that changes the shape of goals; compute_reward gets the changed goals."""

    def __init__(self):
        super().__init__(Reach())
        goal = self.change(np.zeros(2, np.float32))
        box = spaces.Box(-1, 1, goal.shape, np.float32)
        parts = {"achieved_goal": box, "desired_goal": box}
        self.observation_space = spaces.Dict(self.env.observation_space.spaces | parts)

    def observation(self, observation):
        goals = {key: self.change(observation[key]) for key in ("achieved_goal", "desired_goal")}
        return observation | goals


class RepeatsGoals(ChangesGoals, breaks="GE008"):
    def change(self, goal):
        return np.concatenate([goal, goal])


class StacksFrames(Specimen, gym.wrappers.FrameStackObservation, breaks="GE008"):
    def __init__(self):
        super().__init__(Reach(), 2)


class LookupRaises(Specimen, gym.Wrapper, breaks="GE000"):
    """Attributes of the wrapped environment are looked up in a dict without defaults."""

    def __init__(self):
        super().__init__(Reach())

    def get_wrapper_attr(self, name):
        return {"np_random": self.np_random}[name]


class AttributesRaise(Specimen, gym.Wrapper, breaks="GE000"):
    def __init__(self):
        super().__init__(Reach())

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"the server does not know {name}")


class SpaceRaises(Specimen, gym.Wrapper, breaks="GE000"):
    def __init__(self):
        super().__init__(Reach())

    @property
    def observation_space(self):
        raise NotImplementedError
