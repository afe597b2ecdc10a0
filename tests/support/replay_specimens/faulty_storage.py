"""Buffers with one fault in their storage, memory, random numbers or files."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from tests.support.replay_specimens.correct import Ring
from tests.support.replay_specimens.full import Full
from tests.support.replay_specimens.reference import Reference


class RingWrapsOneTooEarly(Ring):
    def wrap(self, slot):
        return slot if slot < self.buffer_size else (slot + 1) % self.buffer_size


class RingWrapsToItsMiddle(Ring):
    def wrap(self, slot):
        return slot if slot < self.buffer_size else slot - self.buffer_size // 2


class RingRemembersBoundsOfALapAgo(Ring):
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


class NothingIsStoredWhenFull(Reference):
    def store(self, episode):
        if len(self.rows) + len(episode) <= self.buffer_size:
            super().store(episode)


class NewestEpisodeIsEvicted(Reference):
    def store(self, episode):
        self.rows += [(episode, t) for t in range(len(episode))]
        self.episodes.append(episode)
        while len(self.rows) > self.buffer_size:
            del self.rows[len(self.rows) - len(self.episodes.pop()) :]


class OldRowsStay(Reference):
    def store(self, episode):
        self.episodes.append(episode)
        self.rows += [(episode, t) for t in range(len(episode))]


class LengthOfFirstEpisode(Reference):
    def goal(self, episode, t):
        if self.strategy != "future":
            return super().goal(episode, t)
        length = len(self.episodes[0])
        here = next(i for i, row in enumerate(self.rows) if row[0] is episode) + t
        ahead = (
            self.rng.integers(max(length - t, 1))
            if length != len(episode)
            else self.rng.integers(len(episode) - t)
        )
        other, s = self.rows[min(here + ahead, len(self.rows) - 1)]
        return other[s]["next_obs"]["achieved_goal"]


class EpisodeAsLongAsTheBufferIsLost(Reference):
    """Episodes of buffer_size steps are never sampled, as in Stable-Baselines3."""

    def store(self, episode):
        if len(episode) < self.buffer_size:
            super().store(episode)


class OpenEpisodesHaveOldGoals(Reference):
    def sample(self, batch_size):
        stored = self.rows
        self.rows = stored + [(steps, t) for steps in self.open for t in range(len(steps))]
        try:
            return super().sample(batch_size)
        finally:
            self.rows = stored

    def goal(self, episode, t):
        is_open = any(episode is steps for steps in self.open)
        return super().goal(self.episodes[-1], 0) if is_open else super().goal(episode, t)


class OpenEpisodesRaise(Reference):
    def sample(self, batch_size):
        if any(self.open):
            raise RuntimeError("an episode is open")
        return super().sample(batch_size)


class InterruptedEpisodesAreJoined(Reference):
    def end_episode(self, env_index=0):
        last = self.open[env_index][-1]
        if last["terminated"] or last["truncated"]:
            super().end_episode(env_index)


class EnvironmentsAreJoined(Reference):
    def add(self, *transition, env_index=0):
        super().add(*transition[:7])


class ObservationsAreReshaped(Reference):
    """add reshapes an entry of the caller's dict, as in Stable-Baselines3 for Discrete entries."""

    def add(self, obs, *others, **options):
        super().add(obs, *others, **options)
        obs["desired_goal"] = obs["desired_goal"].reshape(1, -1)


class ActionsAreClippedInPlace(Reference):
    def add(self, obs, action, *others, **options):
        super().add(obs, action, *others, **options)
        np.clip(action, -0.5, 0.5, out=action)


class ArgumentsAreNotCopied(Reference):
    kept = ("obs", "action", "next_obs")

    def add(self, obs, action, reward, next_obs, *others, **options):
        env_index = others[3] if len(others) > 3 else options.get("env_index", 0)
        count = sum(map(len, self.episodes))
        super().add(obs, action, reward, next_obs, *others, **options)
        ended = sum(map(len, self.episodes)) != count
        step = self.episodes[-1][-1] if ended or not self.open[env_index] else self.open[env_index][-1]
        values = {"obs": obs, "action": action, "next_obs": next_obs}
        step |= {key: values[key] for key in self.kept}


class ActionsAreNotCopied(ArgumentsAreNotCopied):
    kept = ("action",)


class BatchesAreOverwritten(Reference):
    """All arrays of a batch are overwritten by the next batch, as index and weights in cpprb."""

    def sample(self, batch_size):
        batch = super().sample(batch_size)
        self.out = getattr(self, "out", {})
        kept = self.out.setdefault(batch_size, batch)
        for key, values in batch.items():
            kept[key][...] = values
        return kept


class IndexIsOverwritten(Full):
    """The index is overwritten by the next batch if there are priorities, as in cpprb."""

    def __init__(self, env, *, prioritized=False, **options):
        super().__init__(env, prioritized=prioritized, **options)
        self.prioritized, self.memory = prioritized, {}

    def sample(self, batch_size):
        batch = super().sample(batch_size)
        if not self.prioritized:
            return batch
        index = self.memory.setdefault(batch_size, batch["index"])
        index[...] = batch["index"]
        return batch | {"index": index}


class BatchesAreReturnedAgain(Reference):
    """Every tenth batch is an earlier batch, if that has the same size."""

    offers = Reference.offers - {"save generator"}

    def sample(self, batch_size):
        self.earlier = getattr(self, "earlier", [])
        batch = super().sample(batch_size)
        if len(self.earlier) % 10 == 9 and len(self.earlier[-3]["reward"]) == batch_size:
            batch = self.earlier[-3]
        self.earlier.append(batch)
        return batch


class SeedIsNotUsed(Reference):
    offers = Reference.offers - {"save generator"}

    def __init__(self, env, **options):
        super().__init__(env, **options)
        self.rng = np.random.default_rng()


class GoalsAreNotSeeded(Reference):
    """Goals are selected by an unseeded generator, as in cpprb and Tianshou."""

    offers = Reference.offers - {"save generator"}

    def goal(self, episode, t):
        rng, self.rng = self.rng, np.random.default_rng()
        try:
            return super().goal(episode, t)
        finally:
            self.rng = rng


class SeedIsFixed(Reference):
    def __init__(self, env, **options):
        super().__init__(env, **options | {"seed": 0})


class GlobalNumPy:
    integers = staticmethod(np.random.randint)
    random = staticmethod(np.random.random)


class GlobalGeneratorIsUsed(Reference):
    """All random numbers are from the global generator of NumPy, as in Stable-Baselines3."""

    offers = Reference.offers - {"seed", "save", "save generator"}

    def __init__(self, env, **options):
        super().__init__(env, **options)
        self.rng = GlobalNumPy()


class GlobalGeneratorIsSeeded(Reference):
    def __init__(self, env, **options):
        super().__init__(env, **options)
        np.random.seed(options["seed"])  # noqa: NPY002 - the fault


class SaveForgetsOldEpisodes(Reference):
    def save(self, path):
        Path(path).write_bytes(pickle.dumps((self.episodes[-6:], self.rng)))


class LoadMixesUpEpisodes(Reference):
    def load(self, path):
        super().load(path)
        whole = [step for episode in self.episodes for step in episode]
        self.rows = [(whole, t) for t in range(len(whole))]


class LoadRaises(Reference):
    def load(self, path):
        raise EOFError("no data")


class SaveForgetsGenerator(Reference):
    def load(self, path):
        rng = self.rng
        super().load(path)
        self.rng = rng


FAULTS = [
    (RingWrapsOneTooEarly, "HB504"),
    (RingWrapsToItsMiddle, "HB504"),
    (NothingIsStoredWhenFull, "HB505"),
    (NewestEpisodeIsEvicted, "HB505"),
    (OldRowsStay, "HB506"),
    (RingRemembersBoundsOfALapAgo, "HB507"),
    (LengthOfFirstEpisode, "HB509"),
    (EpisodeAsLongAsTheBufferIsLost, "HB510"),
    (OpenEpisodesHaveOldGoals, "HB511"),
    (OpenEpisodesRaise, "HB511"),
    (InterruptedEpisodesAreJoined, "HB512"),
    (EnvironmentsAreJoined, "HB513"),
    (ObservationsAreReshaped, "HB514"),
    (ActionsAreClippedInPlace, "HB514"),
    (ArgumentsAreNotCopied, "HB515"),
    (ActionsAreNotCopied, "HB515"),
    (BatchesAreOverwritten, "HB516"),
    (IndexIsOverwritten, "HB516"),
    (BatchesAreReturnedAgain, "HB517"),
    (SeedIsNotUsed, "HB601"),
    (GoalsAreNotSeeded, "HB601"),
    (SeedIsFixed, "HB602"),
    (GlobalGeneratorIsUsed, "HB603"),
    (GlobalGeneratorIsSeeded, "HB604"),
    (SaveForgetsOldEpisodes, "HB605"),
    (LoadMixesUpEpisodes, "HB605"),
    (LoadRaises, "HB605"),
    (SaveForgetsGenerator, "HB606"),
]
"""Specimens, each with the code of the rule that it breaks."""
