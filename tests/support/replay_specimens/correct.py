"""Correct buffers with unusual implementations."""

import numpy as np

from tests.support.replay_specimens.reference import Full, Reference


class Unusual(Reference):
    """Relabeled rows come first, in a number that is rounded randomly; no transition is in a batch twice.

    Batches have float32 rewards, float flags and read-only arrays. The strategy episode may choose the first
    state, and random evicted goals.
    """

    goals = ()

    def sample(self, batch_size):
        self.count = int(batch_size * self.k / (self.k + 1) + self.rng.random())
        is_enough = len(self.rows) >= batch_size
        self.order = self.rng.permutation(len(self.rows)).tolist() if is_enough else []
        batch = super().sample(batch_size)
        batch |= {"reward": batch["reward"].astype(np.float32), "terminated": batch["terminated"] * 1.0}
        for values in batch.values():
            values.flags.writeable = False
        return batch

    def choose(self):
        return self.rows[self.order.pop()] if self.order else super().choose()

    def is_relabeled(self, episode, t, i, batch_size):
        return i < self.count

    def goal(self, episode, t):
        if self.strategy == "random":
            return self.goals[self.rng.integers(len(self.goals))]
        if self.strategy == "episode" and self.rng.integers(len(episode) + 1) == 0:
            return episode[0]["obs"]["achieved_goal"]
        return super().goal(episode, t)

    def store(self, episode):
        super().store(episode)
        self.goals = [*self.goals, *(step["next_obs"]["achieved_goal"] for step in episode)]

    def state(self):
        return super().state() | {"goals": self.goals}


class RecomputesOriginalRewards(Reference):
    """Rewards of original rows are recomputed for the goal of the row, as in OpenAI baselines."""

    offers = Reference.offers - {"recorded rewards"}

    def row(self, step, goal, relabeled):
        row = super().row(step, goal, relabeled)
        reward = self.env.compute_reward(row["next_achieved_goal"], goal, row["info"])
        return row | {"reward": np.array(reward)}


class NoTerminations(RecomputesOriginalRewards):
    """Batches have no terminations either, since OpenAI baselines clips targets instead."""

    termination = None

    def sample(self, batch_size):
        batch = super().sample(batch_size)
        del batch["terminated"]
        return batch


class SamplesOpenEpisodes(Reference):
    """Steps of open episodes are sampled with goals from the steps added so far, as in Tianshou."""

    offers = Reference.offers - {"seed", "save", "save generator"}
    samples_open_episodes = True

    def sample(self, batch_size):
        stored = self.rows
        self.rows = stored + [(steps, t) for steps in self.open for t in range(len(steps))]
        try:
            return super().sample(batch_size)
        finally:
            self.rows = stored


class Ring(Reference):
    """Single transitions are overwritten, while later steps of the same episode stay stored."""

    offers = Reference.offers - {"random", "episode"}
    evicts = "steps"

    def __init__(self, env, **options):
        super().__init__(env, **options)
        self.slots, self.added, self.steps_left = {}, 0, {}

    def load(self, path):
        self.slots, self.added, self.steps_left = {}, 0, {}
        super().load(path)

    def store(self, episode):
        self.episodes.append(episode)
        for step in episode:
            self.slots[self.added % self.buffer_size] = step
            self.added += 1
        self.update(len(episode))

    def update(self, length):
        """Store the number of later steps of the episode for each slot of the newest episode."""
        for left in range(length):
            self.steps_left[(self.added - 1 - left) % self.buffer_size] = left

    def sample_row(self, i, batch_size):
        slot = int(self.rng.integers(len(self.slots)))
        left = self.steps_left[slot]
        relabeled = self.rng.random() < self.k / (self.k + 1)
        step = self.slots[slot]
        ahead = left if self.strategy == "final" else self.rng.integers(left + 1)
        goal = self.slots[self.wrap(slot + ahead)]["next_obs"]["achieved_goal"]
        return self.row(step, goal if relabeled else step["obs"]["desired_goal"], relabeled)

    def wrap(self, slot):
        return slot % self.buffer_size


class StratifiedPriorities(Full):
    """Each row of a batch is sampled from another part of the sum of the priorities.

    Weights are not normalized. One place stays free, as in a ring that is never quite full.
    """

    def sample_row(self, i, batch_size):
        self.part = i, batch_size
        return super().sample_row(i, batch_size)

    def choose(self):
        if not self.priorities:
            return super().choose()
        if self.part[0] == 0:
            self.sums = np.cumsum([self.priority(episode[t]) for episode, t in self.rows])
        place = (self.part[0] + self.rng.random()) / self.part[1]
        return self.rows[np.searchsorted(self.sums, place * self.sums[-1])]

    def store(self, episode):
        super().store(episode)
        while len(self.rows) >= self.buffer_size and len(self.episodes) > 1:
            self.evict()

    def weights(self, priorities):
        return 3 / priorities


class SystematicPriorities(Full):
    """The rows of a batch are at equal distances in the sums of the priorities, after one random offset."""

    def sample(self, batch_size):
        sums = np.cumsum([self.priority(episode[t]) for episode, t in self.rows])
        places = (np.arange(batch_size) + self.rng.random()) / batch_size * sums[-1]
        self.chosen = np.searchsorted(sums, places).tolist()
        return super().sample(batch_size)

    def choose(self):
        return self.rows[self.chosen.pop()]


class PrioritizedCopies(Reference):
    """The original and k relabeled copies of every transition are stored, as in cpprb and garage.

    Copies have priorities of their own, and indices that later copies use again.
    """

    offers = Reference.offers - {"random", "save", "save generator"} | {"priorities"}
    evicts = "steps"

    def store(self, episode):
        first = len(self.rows) and self.rows[-1][-1]["index"] + 1
        for t, step in enumerate(episode):
            own = self.row(step, step["obs"]["desired_goal"], relabeled=False)
            copies = [self.row(step, self.goal(episode, t), relabeled=True) for _ in range(self.k)]
            self.rows += [[own, *copies]]
        slots = self.buffer_size * (self.k + 1)
        for i, copy in enumerate(copy for copies in self.rows[-len(episode) :] for copy in copies):
            copy["index"] = (first + i) % slots
            self.priorities.pop(copy["index"], None)
        del self.rows[: -self.buffer_size]

    def sample_row(self, i, batch_size):
        while True:
            copies = self.rows[self.rng.integers(len(self.rows))]
            row = copies[self.rng.integers(len(copies))]
            if self.rng.random() < self.priorities.get(row["index"], 20.0) / 20:
                return row


PRIORITIZED = [StratifiedPriorities, SystematicPriorities, PrioritizedCopies]
CORRECT = [Full, Unusual, NoTerminations, SamplesOpenEpisodes, Ring, *PRIORITIZED]
