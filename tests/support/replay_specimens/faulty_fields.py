"""Buffers with one fault in a field of a row, in a kind of end, or after loading, in few situations."""

import numpy as np

from tests.support.replay_specimens.faulty_goals import ChoosesFrom, achieved
from tests.support.replay_specimens.reference import Full, Reference

# --- rows with n steps ----------------------------------------------------------------------------


class ActionOfLastStep(Full, code="HB550"):
    def sample_row(self, i, batch_size):
        row = super().sample_row(i, batch_size)
        return row | {"action": row["window"][-1]["action"]}


class NextGoalOfWindowIsRecorded(Full, code="HB150"):
    def sample_row(self, i, batch_size):
        row, recorded = super().sample_row(i, batch_size), {}
        if len(row["window"]) > 1:
            recorded["next_desired_goal"] = row["window"][-1]["next_obs"]["desired_goal"]
        return row | recorded


class TruncationOfFirstStep(Full, code="HB450"):
    def sample_row(self, i, batch_size):
        row = super().sample_row(i, batch_size)
        return row | {"truncated": row["window"][0]["truncated"]}


# --- goals, infos and precision -------------------------------------------------------------------


class NextGoalIsThatOfTheStep(Reference, code="HB103"):
    """The next observation of an original row has the desired goal of the observation."""

    def row(self, step, goal, relabeled):
        return super().row(step, goal, relabeled) | {"next_desired_goal": goal}


class InfosAreNotCopied(Reference, code="HB327"):
    def add(self, *transition, env_index=0):
        super().add(*transition, env_index=env_index)
        (self.open[env_index] or self.episodes[-1])[-1]["info"] = transition[-1]


class ObservationsAreHalf(Reference, code="HB501"):
    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        halves = {key: row[key].astype(np.float16) for key in ("observation", "next_observation")}
        return row | {key: value.astype(np.float32) for key, value in halves.items()}


class GeometricPrefersFarStates(ChoosesFrom, code="HB194"):
    offers = Full.offers | {"geometric"}
    changed = "geometric"

    def other_goal(self, episode, t):
        back = min(int(self.rng.geometric(0.1)) - 1, len(episode) - 1 - t)
        return achieved(episode[len(episode) - 1 - back])


# --- ends of episodes -----------------------------------------------------------------------------


class EndEndsAllEpisodes(Reference, code="HB124"):
    def end_episode(self, env_index=0):
        last = self.open[env_index][-1]
        is_interrupted = not (last["terminated"] or last["truncated"])
        for index in [i for i, steps in enumerate(self.open) if steps] if is_interrupted else [env_index]:
            super().end_episode(index)


class BothFlagsStoreTwice(Reference, code="HB205"):
    def add(self, *transition, env_index=0):
        super().add(*transition, env_index=env_index)
        if transition[4] and transition[5]:
            self.rows += self.rows[-len(self.episodes[-1]) :]


class CrashesAreNeverStored(Reference, code="HB702"):
    def store(self, episode):
        if not episode[-1]["crashed"]:
            super().store(episode)


# --- saving and loading ---------------------------------------------------------------------------


class LoadAppends(Reference, code="HB731"):
    offers = Reference.offers - {"save generator"}

    def load(self, path):
        old, rng = self.episodes, self.rng
        super().load(path)
        self.rng = rng
        self.episodes = old + self.episodes
        self.rows = [(episode, t) for episode in self.episodes for t in range(len(episode))]


class LoadForgetsCapacity(Reference, code="HB730"):
    def load(self, path):
        super().load(path)
        self.buffer_size = 10**6


class OpenEpisodesAreLostByLoad(Reference, code="HB730"):
    def load(self, path):
        super().load(path)
        self.open = [[] for _ in self.open]


# --- memory and priorities ------------------------------------------------------------------------


class BatchOfOneRowIsShared(Reference, code="HB528"):
    def row(self, step, goal, relabeled):
        self.last = step["obs"]["observation"]
        return super().row(step, goal, relabeled)

    def sample(self, batch_size):
        batch = super().sample(batch_size)
        return batch | {"observation": self.last[None]} if batch_size == 1 else batch


class NewestIsNeverSampledByPriority(Full, code="HB805"):
    def priority(self, step):
        is_newest = step["number"] == self.steps_stored - 1
        return 0.0 if self.prioritized and is_newest else super().priority(step)
