"""Buffers with one fault in their storage, memory, random numbers or files."""

import numpy as np

from tests.support.replay_specimens.correct import Ring, SamplesOpenEpisodes
from tests.support.replay_specimens.reference import Full, Reference


class RingWrapsOneTooEarly(Ring, code="HB120"):
    def wrap(self, slot):
        return slot if slot < self.buffer_size else (slot + 1) % self.buffer_size


class RingRemembersBoundsOfALapAgo(Ring, code="HB120"):
    """Bounds are updated only if length or cursor changed since the previous batch, as in TorchRL."""

    lengths, key = (), None

    def update(self, length):
        self.lengths = (*self.lengths, (self.added, length))

    def sample(self, batch_size):
        key = len(self.slots), self.added % self.buffer_size
        if key != self.key:
            self.key = key
            for added, length in self.lengths:
                for left in range(length):
                    self.steps_left[(added - 1 - left) % self.buffer_size] = left
        self.lengths = self.lengths[-1:] if key == self.key else self.lengths
        return super().sample(batch_size)


class OldRowsStay(Reference, code="HB720"):
    def store(self, episode):
        self.episodes.append(episode)
        self.rows += [(episode, t) for t in range(len(episode))]


class EpisodeAsLongAsTheBufferIsLost(Reference, code="HB722"):
    """Episodes of buffer_size steps are never sampled, as in Stable-Baselines3."""

    def store(self, episode):
        if len(episode) < self.buffer_size:
            super().store(episode)


class OneStepEpisodesAreLost(Reference, code="HB708"):
    def store(self, episode):
        if len(episode) > 1:
            super().store(episode)


class CrashesAreNeverStored(Reference, code="HB702"):
    def store(self, episode):
        if not episode[-1]["crashed"]:
            super().store(episode)


class BothFlagsStoreTwice(Reference, code="HB205", scenario="ends of episodes"):
    def add(self, *transition, env_index=0):
        super().add(*transition, env_index=env_index)
        if transition[4] and transition[5]:
            self.rows += self.rows[-len(self.episodes[-1]) :]


# --- open episodes and several environments --------------------------------------------------------


class OpenEpisodesHaveOldGoals(SamplesOpenEpisodes, code="HB123"):
    offers = Reference.offers

    def goal(self, episode, t):
        is_open = any(episode is steps for steps in self.open)
        return super().goal(self.episodes[-1], 0) if is_open else super().goal(episode, t)


class OpenEpisodesRaise(Reference, code="HB723"):
    def sample(self, batch_size):
        if any(self.open):
            raise RuntimeError("an episode is open")
        return super().sample(batch_size)


class InterruptedEpisodesAreJoined(Reference, code="HB124"):
    def end_episode(self, env_index=0):
        last = self.open[env_index][-1]
        if last["terminated"] or last["truncated"]:
            super().end_episode(env_index)


class EnvironmentsAreJoined(Reference, code="HB125"):
    def add(self, *transition, env_index=0):
        super().add(*transition)


# --- memory of arguments and batches ---------------------------------------------------------------


class ObservationsAreReshaped(Reference, code="HB607"):
    """add reshapes an entry of the caller's dict, as in Stable-Baselines3 for Discrete entries."""

    def add(self, obs, *others, **options):
        super().add(obs, *others, **options)
        obs["desired_goal"] = obs["desired_goal"].reshape(1, -1)


class ArgumentsAreNotCopied(Reference, code="HB527"):
    def add(self, obs, action, reward, next_obs, *others, env_index=0):
        super().add(obs, action, reward, next_obs, *others, env_index=env_index)
        step = (self.open[env_index] or self.episodes[-1])[-1]
        step |= {"obs": obs, "action": action, "next_obs": next_obs}


class InfosAreNotCopied(Reference, code="HB327"):
    def add(self, *transition, env_index=0):
        super().add(*transition, env_index=env_index)
        (self.open[env_index] or self.episodes[-1])[-1]["info"] = transition[-1]


class IndexIsOverwritten(Full, code="HB608", scenario="set priorities"):
    """The index is overwritten by the next batch if there are priorities, as in cpprb."""

    def sample(self, batch_size):
        batch = super().sample(batch_size)
        self.memory = getattr(self, "memory", {})
        if not self.prioritized:
            return batch
        index = self.memory.setdefault(batch_size, batch["index"])
        index[...] = batch["index"]
        return batch | {"index": index}


class BatchesAreOverwrittenByAdding(Reference, code="HB608", scenario="full buffer"):
    """The last batch shares memory with the storage, which new transitions overwrite."""

    batch = None

    def store(self, episode):
        super().store(episode)
        if self.batch is not None:
            self.batch["reward"][:] = 9

    def sample(self, batch_size):
        self.batch = super().sample(batch_size)
        return self.batch


class BatchOfOneRowIsShared(Reference, code="HB528"):
    def row(self, step, goal, relabeled):
        self.last = step["obs"]["observation"]
        return super().row(step, goal, relabeled)

    def sample(self, batch_size):
        batch = super().sample(batch_size)
        return batch | {"observation": self.last[None]} if batch_size == 1 else batch


# --- random numbers --------------------------------------------------------------------------------


class SeedIsNotUsed(Reference, code="HB601"):
    offers = Reference.offers - {"save generator"}

    def __init__(self, env, **options):
        super().__init__(env, **options)
        self.rng = np.random.default_rng()


class GlobalNumPy:
    integers = staticmethod(np.random.randint)
    random = staticmethod(np.random.random)


class GlobalGeneratorIsUsed(Reference, code="HB603"):
    """All random numbers are from the global generator of NumPy, as in Stable-Baselines3."""

    offers = Reference.offers - {"seed", "save", "save generator"}

    def __init__(self, env, **options):
        super().__init__(env, **options)
        self.rng = GlobalNumPy()


class GlobalGeneratorIsSeeded(Reference, code="HB603"):
    def __init__(self, env, **options):
        super().__init__(env, **options)
        np.random.seed(options["seed"])  # noqa: NPY002 - the fault


class SaveForgetsGenerator(Reference, code="HB606"):
    def load(self, path):
        rng = self.rng
        super().load(path)
        self.rng = rng


# --- files -----------------------------------------------------------------------------------------


class SaveForgetsOldEpisodes(Reference, code="HB730"):
    def state(self):
        return super().state() | {"episodes": self.episodes[-6:]}


class LoadMixesUpEpisodes(Reference, code="HB130"):
    def load(self, path):
        super().load(path)
        whole = [step for episode in self.episodes for step in episode]
        self.rows = [(whole, t) for t in range(len(whole))]


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
