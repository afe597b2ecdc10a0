"""An environment that returns some of its arrays at every step, with new content."""

import numpy as np

from tests.support.specimens.reach import DenseReach

KEPT = [
    ("achieved_goal",),
    ("observation",),
    ("observation", "achieved_goal"),
    ("observation", "desired_goal", "achieved_goal"),
]
"""Keys whose arrays are reused."""


class Reusing(DenseReach):
    """A point that moves to a goal; the arrays of ``kept`` and, with "info", the info dict are reused."""

    def __init__(self, kept=()):
        super().__init__()
        self.kept = kept
        self.arrays = {key: np.zeros(2, np.float32) for key in kept}
        self.infos = {}

    def move(self, action):
        return (self.position + 0.05 * np.clip(action, -1, 1)).clip(-1, 1).astype(self.dtype)

    def observe(self):
        observation = super().observe()
        for key in self.arrays.keys() & observation.keys():
            self.arrays[key][:] = observation[key]
            observation[key] = self.arrays[key]
        return observation

    def inform(self, observation):
        info = super().inform(observation) | {"place": self.position.copy()}
        if "info" not in self.kept:
            return info
        self.infos.update(info)
        return self.infos
