"""warn_user: a warning names a line of the user's, not one of ours or of Gymnasium's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from her_wrappers import GoalEnvChecker
from her_wrappers.checker.passive import HELD, STRIDE, WATCHED_CLOSELY
from tests.her_wrappers.checker.specimens.reach import DenseReach

STILL = np.zeros(2, np.float32)


class OffsetFrom(DenseReach):
    """Its rewards differ from compute_reward's from some step on."""

    def __init__(self, first):
        super().__init__()
        self.left = first

    def reward(self, observation, info):
        self.left -= 1
        return super().reward(observation, info) - 3 * (self.left < 0)


@pytest.mark.parametrize("first", [0, WATCHED_CLOSELY], ids=["at once", "when several are judged together"])
@pytest.mark.parametrize(
    "wrap", [lambda env: env, lambda env: TimeLimit(env, 10**6)], ids=["bare", "wrapped"]
)
def test_a_finding_names_the_line_that_steps_the_environment(wrap, first):
    env = wrap(GoalEnvChecker(OffsetFrom(first)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env.reset(seed=0)
        for _ in range(first + STRIDE * HELD):
            env.step(STILL)
    assert [warning.filename for warning in caught] == [__file__]
