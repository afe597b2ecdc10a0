"""Specimens whose infos cannot be batched (GE5xx), and faulty vector environments (GE6xx and others)."""

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.support.specimens.arms import Glides
from tests.support.specimens.broken_seeds import RepeatsTheLastSeed
from tests.support.specimens.reach import DenseReach, Reach, Specimen, wrong_info

wrong_info("GE501", "RaggedInfo", lambda env, info: info | {"path": np.zeros(env.elapsed)})
wrong_info(
    "GE501", "NoneOrDictInfo", lambda env, info: info | {"touch": {"force": 1.0} if env.elapsed % 2 else None}
)
wrong_info("GE501", "IntegerThenFloatInfo", lambda env, info: info | {"cost": 0 if env.elapsed % 3 else 0.5})
wrong_info("GE501", "UnderscoredInfoKey", lambda env, info: info | {"cost": 0.25, "_cost": 0.5})


class Reaches(Specimen, SyncVectorEnv):
    """A correct vector environment of three Reach environments."""

    single = Reach
    mode = AutoresetMode.SAME_STEP

    def __init__(self):
        super().__init__([self.single] * 3, autoreset_mode=self.mode)


class RewardsOfTheWrongRow(Reaches, breaks="GE101"):
    single = DenseReach

    def step(self, actions):
        observations, rewards, *returned = super().step(actions)
        return observations, np.roll(rewards, 1), *returned


class ReusesBatch(Reaches, breaks="GE301"):
    mode = AutoresetMode.NEXT_STEP

    def __init__(self):
        SyncVectorEnv.__init__(self, [Reach] * 3, copy=False)


class ReusesRewards(Reaches, breaks="GE301"):
    mode = AutoresetMode.NEXT_STEP

    def step(self, actions):
        observations, _, *returned = super().step(actions)
        return observations, self._rewards, *returned


class RowsRepeatTheirFirstEpisode(Reaches, breaks="GE405"):
    mode = AutoresetMode.NEXT_STEP
    single = RepeatsTheLastSeed


class NoAutoresetMode(Reaches, breaks="GE601"):
    mode = AutoresetMode.NEXT_STEP

    def __init__(self):
        super().__init__()
        self.metadata = {"render_modes": []}


class LosesFinalObservation(Reaches, breaks="GE602"):
    lost = "final_obs"

    def step(self, actions):
        *returned, infos = super().step(actions)
        return *returned, {key: value for key, value in infos.items() if self.lost not in key}


class LosesFinalInfo(LosesFinalObservation, breaks="GE602"):
    lost = "final_info"


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


class ListOfInfos(Reaches, breaks="GE000"):
    """Infos are a list of dicts, as in Stable-Baselines3."""

    def step(self, actions):
        *returned, infos = super().step(actions)
        return *returned, [{"is_success": bool(flag)} for flag in infos["is_success"]]


class OneSeedForAllRows(Reaches, breaks="GE405"):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed if seed is None else [seed] * self.num_envs, options=options)


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
        self.set_attr("stops", True)
        returned = super().reset(seed=seed, options=options)
        self.set_attr("stops", False)
        return returned


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
