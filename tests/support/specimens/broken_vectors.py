"""Faulty vector environments of correct environments."""

from __future__ import annotations

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.support.specimens.reach import DenseReach, Reach


class Reaches(SyncVectorEnv):
    """A correct vector environment of three Reach environments."""

    single = Reach
    mode = AutoresetMode.SAME_STEP

    def __init__(self):
        super().__init__([self.single] * 3, autoreset_mode=self.mode)


class NoAutoresetMode(Reaches):
    mode = AutoresetMode.NEXT_STEP

    def __init__(self):
        super().__init__()
        self.metadata = {"render_modes": []}


class LosesFinalObservation(Reaches):
    def step(self, actions):
        *returned, infos = super().step(actions)
        return *returned, {key: value for key, value in infos.items() if "final_obs" not in key}


class LosesFinalInfo(Reaches):
    def step(self, actions):
        *returned, infos = super().step(actions)
        return *returned, {key: value for key, value in infos.items() if "final_info" not in key}


class RewardsInAColumn(Reaches):
    mode = AutoresetMode.NEXT_STEP

    def step(self, actions):
        observations, rewards, *returned = super().step(actions)
        return observations, rewards[:, None], *returned


class TerminationsAsNumbers(Reaches):
    mode = AutoresetMode.DISABLED

    def step(self, actions):
        observations, rewards, terminated, *returned = super().step(actions)
        return observations, rewards, terminated.astype(np.float32), *returned


class RewardsOfTheWrongRow(Reaches):
    single = DenseReach

    def step(self, actions):
        observations, rewards, *returned = super().step(actions)
        return observations, np.roll(rewards, 1), *returned


class ReusesBatch(Reaches):
    mode = AutoresetMode.NEXT_STEP

    def __init__(self):
        SyncVectorEnv.__init__(self, [Reach] * 3, copy=False)


FAULTS = [
    (NoAutoresetMode, "GE601"),
    (LosesFinalObservation, "GE602"),
    (LosesFinalInfo, "GE604"),
    (RewardsInAColumn, "GE603"),
    (TerminationsAsNumbers, "GE603"),
    (RewardsOfTheWrongRow, "GE101"),
    (ReusesBatch, "GE301"),
]
