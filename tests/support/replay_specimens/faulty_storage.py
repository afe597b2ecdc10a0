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


class IndexIsOverwritten(Full, code="HB608"):
    """The index is overwritten by the next batch if there are priorities, as in cpprb."""

    def sample(self, batch_size):
        batch = super().sample(batch_size)
        self.memory = getattr(self, "memory", {})
        if not self.prioritized:
            return batch
        index = self.memory.setdefault(batch_size, batch["index"])
        index[...] = batch["index"]
        return batch | {"index": index}


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


class SaveForgetsOldEpisodes(Reference, code="HB730"):
    def state(self):
        return super().state() | {"episodes": self.episodes[-6:]}


class LoadMixesUpEpisodes(Reference, code="HB130"):
    def load(self, path):
        super().load(path)
        whole = [step for episode in self.episodes for step in episode]
        self.rows = [(whole, t) for t in range(len(whole))]


class SaveForgetsGenerator(Reference, code="HB606"):
    def load(self, path):
        rng = self.rng
        super().load(path)
        self.rng = rng
