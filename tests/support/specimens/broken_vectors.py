"""Faulty vector environments of correct environments."""

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.support.specimens.arms import Glides
from tests.support.specimens.reach import DenseReach, Reach, Specimen


class Reaches(Specimen, SyncVectorEnv):
    """A correct vector environment of three Reach environments."""

    single = Reach
    mode = AutoresetMode.SAME_STEP

    def __init__(self):
        super().__init__([self.single] * 3, autoreset_mode=self.mode)


class NoAutoresetMode(Reaches, breaks="GE601"):
    mode = AutoresetMode.NEXT_STEP

    def __init__(self):
        super().__init__()
        self.metadata = {"render_modes": []}


class LosesFinalObservation(Reaches, breaks="GE602"):
    def step(self, actions):
        *returned, infos = super().step(actions)
        return *returned, {key: value for key, value in infos.items() if "final_obs" not in key}


class LosesFinalInfo(Reaches, breaks="GE604"):
    def step(self, actions):
        *returned, infos = super().step(actions)
        return *returned, {key: value for key, value in infos.items() if "final_info" not in key}


class GlidesOn(Glides):
    """Only a reset by the vector environment itself stops the point."""

    stops = True

    def draw_start(self):
        velocity = np.zeros(2) if self.stops else self.velocity
        start = super().draw_start()
        self.velocity = velocity
        return start


class AutoresetKeepsTheVelocity(Reaches, breaks="GE606"):
    single = GlidesOn

    def reset(self, *, seed=None, options=None):
        for env in self.envs:
            env.stops = True
        returned = super().reset(seed=seed, options=options)
        for env in self.envs:
            env.stops = False
        return returned


class RewardsInAColumn(Reaches, breaks="GE603"):
    mode = AutoresetMode.NEXT_STEP

    def step(self, actions):
        observations, rewards, *returned = super().step(actions)
        return observations, rewards[:, None], *returned


class TerminationsAsNumbers(Reaches, breaks="GE603"):
    mode = AutoresetMode.DISABLED

    def step(self, actions):
        observations, rewards, terminated, *returned = super().step(actions)
        return observations, rewards, terminated.astype(np.float32), *returned


class RewardsOfTheWrongRow(Reaches, breaks="GE101"):
    single = DenseReach

    def step(self, actions):
        observations, rewards, *returned = super().step(actions)
        return observations, np.roll(rewards, 1), *returned


class ReusesBatch(Reaches, breaks="GE301"):
    mode = AutoresetMode.NEXT_STEP

    def __init__(self):
        SyncVectorEnv.__init__(self, [Reach] * 3, copy=False)
