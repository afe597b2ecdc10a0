"""Buffers with one fault in their priorities."""

import numpy as np

from tests.support.replay_specimens.reference import Full


class PriorityDecidesRelabeling(Full, code="HB204", scenario="set priorities"):
    def is_relabeled(self, episode, t, i, batch_size):
        if not self.priorities:
            return super().is_relabeled(episode, t, i, batch_size)
        return self.rng.random() < (0.95 if self.priority(episode[t]) > 10 else 0.6)


class IndexIsThatOfTheBatch(Full, code="HB803"):
    def sample(self, batch_size):
        return super().sample(batch_size) | {"index": np.arange(batch_size)}


class WeightsAreTooDifferent(Full, code="HB804"):
    def weights(self, priorities):
        return (priorities.min() / priorities) ** 2


class WeightsOfLoadedBufferAreOnes(Full, code="HB804"):
    def weights(self, priorities):
        return np.ones(len(priorities)) if self.is_loaded else super().weights(priorities)


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


class LoadForgetsPriorities(Full, code="HB801"):
    def load(self, path):
        super().load(path)
        self.priorities = {}


class PrioritiesAreScaledInPlace(Full, code="HB607", scenario="set priorities"):
    def update_priorities(self, index, priorities):
        super().update_priorities(index, priorities)
        priorities += 1e-6
