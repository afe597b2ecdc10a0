"""EpisodeAccumulator: failed steps do not change the episode."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers.recording.episode_accumulator import EpisodeAccumulator

OBSERVATIONS = spaces.Dict(a=spaces.Box(-9, 9, (2,), np.float64), b=spaces.Dict(c=spaces.Discrete(9)))


def observation(t):
    return {"a": np.array([t, -t], float), "b": {"c": t}}


def begun():
    episode = EpisodeAccumulator(OBSERVATIONS, spaces.Discrete(9), info_keys=["cost"])
    episode.begin(observation(0), {})
    return episode


def go_on(episode, t):
    episode.act(t)
    episode.observe(t / 2, observation(t + 1), {"cost": t})


def assert_counts(episode, length):
    finished = episode.finish(terminated=True, truncated=False)
    assert finished.observations["a"].tolist() == [[t, -t] for t in range(length + 1)]
    assert finished.observations["b"]["c"].tolist() == list(range(length + 1))
    assert finished.actions.tolist() == list(range(length))
    assert finished.rewards.tolist() == [t / 2 for t in range(length)]
    assert finished.infos["cost"].tolist() == list(range(length))


BAD_OUTCOMES = [
    (0.0, {"a": np.zeros(2), "b": {"c": 0.5}}, {"cost": 1}),
    (0.0, {"a": np.zeros(3), "b": {"c": 1}}, {"cost": 1}),
    (0.0, {"a": np.zeros(2)}, {"cost": 1}),
    (0.0, observation(2), {}),
    (None, observation(2), {"cost": 1}),
]


@pytest.mark.parametrize("outcome", BAD_OUTCOMES)
def test_an_invalid_outcome_does_not_change_the_episode(outcome):
    episode = begun()
    go_on(episode, 0)
    episode.act(7)
    with pytest.raises(ValueError, match="at step"):
        episode.observe(*outcome)
    for t in (1, 2):
        go_on(episode, t)
    assert_counts(episode, 3)


def test_an_invalid_action_does_not_change_the_episode():
    episode = begun()
    with pytest.raises(ValueError, match="action at step 0"):
        episode.act(0.5)
    go_on(episode, 0)
    assert_counts(episode, 1)


def test_an_action_without_an_outcome_is_not_a_step():
    episode = begun()
    go_on(episode, 0)
    episode.act(5)
    assert_counts(episode, 1)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda episode: pickle.loads(pickle.dumps(episode))])
def test_a_copy_is_independent_of_the_original(again):
    episode = begun()
    go_on(episode, 0)
    other = again(episode)
    go_on(episode, 1)
    for t in (1, 2):
        go_on(other, t)
    assert_counts(episode, 2)
    assert_counts(other, 3)


def test_an_observation_that_differs_from_the_present_state_is_named():
    episode = begun()
    go_on(episode, 0)
    episode.require_continuation(observation(1))
    episode.require_continuation({"a": np.array([1.0, -1.0]), "b": {"c": np.int8(1)}})
    with pytest.raises(
        ValueError, match=r"obs must equal the previous next_obs: observation/b/c is 2, was 1"
    ):
        episode.require_continuation({"a": np.array([1.0, -1.0]), "b": {"c": 2}})


def test_zeros_of_both_signs_are_equal_and_nans_are_equal():
    episode = EpisodeAccumulator(spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(2))
    episode.begin(np.array([0.0, np.nan]), {})
    episode.require_continuation(np.array([-0.0, np.nan]))
