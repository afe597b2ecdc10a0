"""Episodes that recorders make without validation are valid."""

from __future__ import annotations

import dataclasses

import numpy as np

from her_wrappers import Episode, Episodes
from her_wrappers.recording.episode_accumulator import EpisodeAccumulator
from tests.support.counting import ACTIONS, SPACE, counting_episode


def test_recorded_episodes_pass_validation():
    recorded = EpisodeAccumulator(SPACE, ACTIONS, ["cost"])
    one, two = counting_episode(1, 1), counting_episode(2, 4)
    for episode in (one, two):
        recorded.resume(dataclasses.replace(episode, infos={"cost": np.arange(len(episode))}))
        finished = recorded.finish(terminated=np.bool_(True), truncated=False)
        assert isinstance(finished, Episode)
        checked = dataclasses.replace(finished)
        assert checked.__dict__ == finished.__dict__
        assert (type(finished.terminated), type(finished.truncated)) == (bool, bool)
    together = Episodes.of([one, two])
    checked = dataclasses.replace(together)
    np.testing.assert_array_equal(together.ends, checked.ends)
    assert together.ends.dtype == checked.ends.dtype == together.lengths.dtype == np.int64
