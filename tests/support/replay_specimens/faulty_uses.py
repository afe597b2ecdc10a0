"""Buffers whose one fault appears only after use, in some episodes, or in an optional field of a batch."""

import numpy as np

from tests.support.replay_specimens.faulty_goals import ChoosesFrom, achieved
from tests.support.replay_specimens.reference import Demonstrated, Full, Reference

# --- importance weights ---------------------------------------------------------------------------


class WeightsAreTooDifferent(Full, code="HB804"):
    def weights(self, priorities):
        return (priorities.min() / priorities) ** 2


class WeightsOfLoadedBufferAreOnes(Full, code="HB804"):
    def weights(self, priorities):
        return np.ones(len(priorities)) if self.is_loaded else super().weights(priorities)


# --- priorities of added, evicted and loaded transitions ------------------------------------------


class NewTransitionsAreRarelySampled(Full, code="HB805"):
    """New transitions get the smallest priority, once priorities were set."""

    def store(self, episode):
        super().store(episode)
        if self.priorities:
            self.priorities |= {step["number"]: 0.05 for step in episode}


class NewTransitionsAreNeverSampled(Full, code="HB760"):
    def priority(self, step):
        return super().priority(step) if step["number"] in self.priorities else 0.0


class PrioritiesStayInTheirSlots(Full, code="HB805"):
    """New transitions have the priorities of the evicted transitions of the same slots."""

    def priority(self, step):
        numbers = range(step["number"], -1, -self.buffer_size)
        return next((self.priorities[i] for i in numbers if i in self.priorities), 20.0)


class PrioritiesAreSetOnce(Full, code="HB801"):
    def update_priorities(self, index, priorities):
        earlier = self.priorities.copy()
        super().update_priorities(index, priorities)
        self.priorities |= earlier


class EvictionShiftsPriorities(Full, code="HB801"):
    def evict(self):
        super().evict()
        self.priorities = {i + 1: priority for i, priority in self.priorities.items()}


class LoadForgetsPriorities(Full, code="HB801"):
    def load(self, path):
        super().load(path)
        self.priorities = {}


class IndexIsNotUniqueAfterLoad(Full, code="HB803"):
    """Numbers begin at 0 again after loading, so new and loaded transitions share them."""

    def state(self):
        return super().state() | {"steps_stored": 60}


class PrioritiesAreScaledInPlace(Full, code="HB607"):
    def update_priorities(self, index, priorities):
        super().update_priorities(index, priorities)
        priorities += 1e-6


# --- other fields of a batch ----------------------------------------------------------------------


class DiscountIgnoresTermination(Reference, code="HB401"):
    def sample(self, batch_size):
        return super().sample(batch_size) | {"discount": np.full(batch_size, 0.9)}


class RelabeledRowsAreNotTruncated(Reference, code="HB402"):
    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        return row | {"truncated": False} if relabeled else row


# --- rows of the same batch -----------------------------------------------------------------------


class OneRandomNumberPerBatch(ChoosesFrom, code="HB206"):
    def sample(self, batch_size):
        self.place = self.rng.random()
        return super().sample(batch_size)

    def other_goal(self, episode, t):
        return achieved(episode[t + int(self.place * (len(episode) - t))])


class EpisodesAreRelabeledTogether(Reference, code="HB206"):
    """All rows of an episode in a batch are relabeled, or none, as in Tianshou."""

    def sample(self, batch_size):
        self.decisions = {}
        return super().sample(batch_size)

    def is_relabeled(self, episode, t, i, batch_size):
        return self.decisions.setdefault(id(episode), super().is_relabeled(episode, t, i, batch_size))


class WholeEpisodesAreDrawn(Reference, code="HB206"):
    offers = Reference.offers - {"save generator"}
    drawn = ()

    def sample(self, batch_size):
        self.drawn = []
        return super().sample(batch_size)

    def choose(self):
        if not self.drawn:
            episode = self.episodes[self.rng.integers(len(self.episodes))]
            self.drawn = [(episode, t) for t in self.rng.permutation(len(episode)).tolist()]
        return self.drawn.pop()


class EachStepHasOneGoal(ChoosesFrom, code="HB206"):
    """The goal of a step is selected once for all its rows."""

    def other_goal(self, episode, t):
        if "goal" not in episode[t]:
            episode[t]["goal"] = achieved(episode[self.rng.integers(t, len(episode))])
        return episode[t]["goal"]


# --- kinds of episodes ----------------------------------------------------------------------------


class InterruptedEpisodesAreNotRelabeled(Reference, code="HB204"):
    def is_relabeled(self, episode, t, i, batch_size):
        ends = episode[-1]["terminated"] or episode[-1]["truncated"]
        return ends and super().is_relabeled(episode, t, i, batch_size)


class SecondEnvironmentIsNotRelabeled(Reference, code="HB204"):
    def end_episode(self, env_index=0):
        self.open[env_index][0]["env_index"] = env_index
        super().end_episode(env_index)

    def is_relabeled(self, episode, t, i, batch_size):
        return episode[0]["env_index"] != 1 and super().is_relabeled(episode, t, i, batch_size)


class OldEpisodesAreRelabeledLess(Reference, code="HB204"):
    def is_relabeled(self, episode, t, i, batch_size):
        is_old = episode[0]["number"] < self.steps_stored - 80
        return self.rng.random() < (0.3 if is_old else self.k / (self.k + 1))


class ShareIsLostByLoading(Reference, code="HB201"):
    offers = Reference.offers - {"save generator"}

    def load(self, path):
        super().load(path)
        self.k = 1


class CrashesAreSampledTwiceAsOften(Reference, code="HB205"):
    def choose(self):
        episode, t = super().choose()
        return (episode, t) if episode[-1]["crashed"] or self.rng.random() < 0.5 else super().choose()


class NewestTransitionsAreSampledMoreWhenFull(Reference, code="HB205"):
    def choose(self):
        if self.is_full and self.rng.random() < 0.5:
            return self.rows[-1 - self.rng.integers(len(self.rows) // 2)]
        return super().choose()


# --- long episodes --------------------------------------------------------------------------------


class OffsetIsUint8(ChoosesFrom, code="HB190"):
    def other_goal(self, episode, t):
        return achieved(episode[t + (int(self.rng.integers(len(episode) - t)) & 255)])


class LastStateOfLongEpisodesIsNoGoal(ChoosesFrom, code="HB190"):
    def other_goal(self, episode, t):
        end = len(episode) - (len(episode) > 12)
        return achieved(episode[self.rng.integers(t, max(end, t + 1))])


class EpisodeIsItsFirstHundredSteps(ChoosesFrom, code="HB192"):
    changed = "episode"

    def other_goal(self, episode, t):
        return achieved(episode[self.rng.integers(min(len(episode), 100))])


# --- full buffers ---------------------------------------------------------------------------------


class RandomIsOfTheFirstEpisodes(ChoosesFrom, code="HB193"):
    """Goals are no longer stored when the buffer is full."""

    changed, first = "random", ()

    def other_goal(self, episode, t):
        goals = [achieved(step) for each in self.episodes for step in each]
        if not self.is_full or not self.first:
            self.first = goals
        return self.first[self.rng.integers(len(self.first))]


class FinalIsOfThePreviousEpisodeWhenFull(ChoosesFrom, code="HB121"):
    changed = "final"

    def other_goal(self, episode, t):
        place = next(i for i, each in enumerate(self.episodes) if each is episode)
        return achieved(self.episodes[max(place - self.is_full, 0)][-1])


class InfosAreLostWhenFull(Reference, code="HB320"):
    def rewards(self, batch, infos):
        return super().rewards(batch, [{"cost": 0.0}] * len(infos) if self.is_full else infos)


class CrashesAreForgottenWhenFull(Reference, code="HB420"):
    def terminated(self, step, goal):
        return self.is_reached(step["next_obs"], goal) if self.is_full else super().terminated(step, goal)


class ChangedGoalsAreLostWhenFull(Reference, code="HB120"):
    def evict(self):
        super().evict()
        for episode in self.episodes:
            for step in episode:
                step["obs"]["desired_goal"] = episode[0]["obs"]["desired_goal"]


class WindowIsOneStepWhenFull(Full, code="HB550"):
    def window(self, episode, t, goal, relabeled):
        steps = super().window(episode, t, goal, relabeled)
        return steps[:1] if self.is_full and t % 2 else steps


class WindowHasTheFirstInfo(Full, code="HB350"):
    def row_of_window(self, row, m):
        return super().row_of_window(row, m) | {"info": row["window"][0]["info"]}


class BatchesAreOverwrittenByAdding(Reference, code="HB608"):
    """The last batch shares memory with the storage, which new transitions overwrite."""

    batch = None

    def store(self, episode):
        super().store(episode)
        if self.batch is not None:
            self.batch["reward"][:] = 9

    def sample(self, batch_size):
        self.batch = super().sample(batch_size)
        return self.batch


# --- seeds and files ------------------------------------------------------------------------------


class EvictionForgetsTheSeed(Reference, code="HB601"):
    offers = Reference.offers - {"save generator"}

    def evict(self):
        super().evict()
        self.rng = np.random.default_rng()


class AddingToALoadedBufferForgetsTheSequence(Reference, code="HB606"):
    def store(self, episode):
        super().store(episode)
        if self.is_loaded:
            self.rng.random()


class SaveForgetsInfos(Reference, code="HB330"):
    def load(self, path):
        super().load(path)
        for episode in self.episodes:
            for step in episode:
                step["info"] = {"cost": 0.0}


class SaveMakesGoalsFloat32(Reference, code="HB530"):
    def load(self, path):
        super().load(path)
        for episode in self.episodes:
            for step in episode:
                for key in ("obs", "next_obs"):
                    goal = step[key]["achieved_goal"]
                    step[key]["achieved_goal"] = goal.astype(np.float32).astype(goal.dtype)


class SaveForgetsCrashes(Reference, code="HB430"):
    def load(self, path):
        super().load(path)
        for episode in self.episodes:
            episode[-1]["crashed"] = False


# --- demonstrations -------------------------------------------------------------------------------


class NumberOfDemonstrationsIsRoundedDown(Demonstrated, code="HB901"):
    def is_demonstration(self, i, batch_size):
        return i < int(batch_size * self.share)


class ShareOfDemonstrationsIsThatOfTheirSteps(Demonstrated, code="HB901"):
    def is_demonstration(self, i, batch_size):
        others = len(self.others.rows)
        return self.rng.random() < others / (others + len(self.rows))


class DemonstrationsAreEvicted(Demonstrated, code="HB770"):
    """Demonstrations are the first episodes of the buffer."""

    def demonstrate(self, episode, buffer=None):
        super().demonstrate(episode, self)

    def is_demonstration(self, i, batch_size):
        return False


class LoadForgetsDemonstrations(Demonstrated, code="HB770"):
    def load(self, path):
        super().load(path)
        self.share = 0.0


class DemonstrationsAreNotRelabeled(Demonstrated, code="HB204"):
    def demonstrate(self, episode, buffer=None):
        super().demonstrate(episode, buffer)
        self.others.k = 0


class RecordedTerminations(Reference):
    def terminated(self, step, goal):
        return step["terminated"]


class DemonstrationsKeepTerminations(Demonstrated, code="HB470"):
    part = RecordedTerminations
