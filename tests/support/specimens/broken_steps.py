"""Specimens with faults in values of step(), in seeds of resets, and in wrappers."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from tests.support.specimens.broken_vectors import Reaches
from tests.support.specimens.reach import DenseReach, Reach, Specimen


class RewardHasARow(Reach, breaks="GE123"):
    def reward(self, observation, info):
        return np.array([super().reward(observation, info)])


class TerminatedHasARow(Reach, breaks="GE123"):
    def terminated(self, observation, info):
        return np.array([super().terminated(observation, info)])


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


class OneStartForAllRows(Reaches, breaks="GE605"):
    """All rows of the first observation are those of the first environment."""

    mode = AutoresetMode.NEXT_STEP

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        for env in self.envs[1:]:
            env.position, env.goal = self.envs[0].position, self.envs[0].goal
        self._env_obs = [env.observe() for env in self.envs]
        observations = {key: np.stack([row[key] for row in self._env_obs]) for key in self._env_obs[0]}
        return observations, {"is_success": np.zeros(3, bool)}


class ReusesRewards(Reaches, breaks="GE301"):
    mode = AutoresetMode.NEXT_STEP

    def step(self, actions):
        observations, _, *returned = super().step(actions)
        return observations, self._rewards, *returned


class ReusesTruncations(Reaches, breaks="GE301"):
    mode = AutoresetMode.DISABLED

    def step(self, actions):
        observations, rewards, terminated, _, infos = super().step(actions)
        return observations, rewards, terminated, self._truncations, infos


class FlagOnlyIfTrue(Reach, breaks="GE203"):
    def inform(self, observation):
        return {key: value for key, value in super().inform(observation).items() if value}


class FlagIsAText(Reach, breaks="GE203"):
    def inform(self, observation):
        return {"is_success": "yes" if super().inform(observation)["is_success"] else "no"}


class GoalIsZeroAtReset(Reach, breaks="GE305"):
    """The achieved goal is computed by step() only, as positions in MuJoCo without mj_forward."""

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        observation["achieved_goal"] = np.zeros(2, np.float32)
        return observation, {"is_success": bool(self.is_success(np.zeros(2), self.goal))}


class TipIsZeroAtReset(Reach, breaks="GE305"):
    """The observation consists of cosines and sines, whose products determine the achieved goal."""

    def make_space(self):
        return spaces.Dict(super().make_space().spaces | {"observation": spaces.Box(-1, 1, (4,), np.float32)})

    def observe(self):
        angles = np.array([1.0, 2.0]) * self.position
        tip = np.array([np.cos(angles[0]) * np.cos(angles[1]), np.sin(angles[0]) * np.cos(angles[1])])
        tip = tip.astype(np.float32) if self.moved else np.zeros(2, np.float32)
        joints = np.float32([*np.cos(angles), *np.sin(angles)])
        return super().observe() | {"observation": joints, "achieved_goal": tip}

    def draw_start(self):
        self.moved = False
        return super().draw_start()

    def move(self, action):
        self.moved = True
        return super().move(action)


class GoalOneStepLate(DenseReach, breaks="GE305"):
    """The achieved goal is that of the state before the step; the reward is computed from it."""

    def draw_start(self):
        start, goal = super().draw_start()
        self.before = start
        return np.stack([start, goal])

    def move(self, action):
        self.before = self.position
        return super().move(action)

    def observe(self):
        return super().observe() | {"achieved_goal": self.before.copy()}


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


class NoActionSpace(Specimen, gym.Env, breaks="GE000"):
    observation_space = Reach().observation_space


class DelaysObservations(Specimen, gym.wrappers.DelayObservation, breaks="GE303"):
    def __init__(self):
        super().__init__(Reach(), 2)


class ResetsInStep(Reach, breaks="GE303"):
    """step() starts the next episode without an end of the old one."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            observation, info = self.reset()
            reward = self.reward(observation, info)
        return observation, reward, False, False, info

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) & False

    def terminated(self, observation, info):
        return info["is_success"]
