"""OpenEpisodes: transitions become episodes, and open episodes can be copied and resumed."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers.recording.open_episodes import OpenEpisodes
from tests.support.numbered import (
    DISABLED,
    INFO_KEYS,
    NEXT_STEP,
    SAME_STEP,
    ExpectedEpisodes,
    Numbered,
    actions_of,
    vector,
)


def opened(max_steps=1000):
    return OpenEpisodes(Numbered.observation_space, Numbered.action_space, ["place"], max_steps)


def resumed(episodes):
    again = opened()
    again.resume(*episodes.copy())
    return again


class Adding:
    """Adds all transitions of numbered environments, and keeps the episodes that ended."""

    def __init__(self, env):
        self.env, self.open, self.ended = env, opened(), []
        self.observation = copy.deepcopy(env.reset()[0])
        self.skip = None if isinstance(env, Numbered) else np.zeros(env.num_envs, bool)

    def step(self, call):
        action = actions_of(call, self.env)
        observation, reward, terminated, truncated, info = copy.deepcopy(self.env.step(action.copy()))
        skip = self.skip
        transition = self.observation, action, reward, observation, terminated, truncated, info, skip
        self.ended += self.open.add(*transition) or []
        ended = terminated | truncated
        if skip is not None:
            self.skip = ended & (self.env.metadata["autoreset_mode"] is NEXT_STEP)
        elif ended:
            observation = copy.deepcopy(self.env.reset()[0])
        self.observation = observation
        return ended


@given(
    mode=st.sampled_from([None, NEXT_STEP, SAME_STEP]),
    lengths=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=3),
    moments=st.sets(st.integers(0, 30), max_size=4),
    again=st.sampled_from([resumed, copy.deepcopy, lambda episodes: pickle.loads(pickle.dumps(episodes))]),
)
def test_episodes_are_what_really_happened_also_after_a_copy(mode, lengths, moments, again):
    env = Numbered(lengths) if mode is None else vector(3, lengths, mode)
    truth, adding = ExpectedEpisodes(3 if mode else 1, lengths, mode or DISABLED), Adding(env)
    truth.reset()
    for call in range(30):
        ended = truth.step()
        np.testing.assert_array_equal(np.atleast_1d(adding.step(call)), ended)
        if mode is None and ended.any():
            truth.reset()
        if call in moments:
            former, adding.open = adding.open, again(adding.open)
            former.truncate()
    adding.ended += adding.open.truncate() or []
    for episode in adding.ended:
        episode.reset_info.update(place=episode.observations["place"][0])  # `add` gets no info of resets
    truth.assert_recorded(adding.ended, INFO_KEYS[:1])
    assert adding.open.truncate() is None


def single(episode, t, **changes):
    place = [{"place": np.array([0.0, episode, t + k]), "nested": {"odd": (t + k) % 2}} for k in (0, 1)]
    parts = {"obs": place[0], "action": np.zeros(2), "reward": 0.0, "next_obs": place[1], "terminated": False}
    parts |= {"truncated": False, "info": {"place": place[1]["place"]}, "skip": None}
    return parts | changes


BAD = [
    ({"reward": np.inf}, ValueError, "reward must be finite as float32"),
    ({"obs": single(0, 5)["obs"]}, ValueError, "obs must equal the previous next_obs: observation/place"),
    ({"next_obs": {"place": np.zeros(3)}}, ValueError, "observation/nested/odd is missing at step 2"),
    ({"action": np.zeros(3)}, ValueError, "action at step 1 must have shape"),
    ({"terminated": 1}, TypeError, "terminated must be one bool"),
    ({"info": {}}, ValueError, "info has no 'place' at step 1"),
    ({"skip": True}, ValueError, "skip must be None"),
    ({"obs": {"place": np.zeros((2, 3))}}, ValueError, "call truncate_open_episode"),
    ({"obs": {"place": np.zeros((0, 3))}}, ValueError, "obs must have a row for each environment"),
]


@pytest.mark.parametrize(("changes", "error", "message"), BAD)
def test_a_bad_transition_is_not_added(changes, error, message):
    episodes = opened(max_steps=3)
    episodes.add(**single(0, 0))
    with pytest.raises(error, match=message):
        episodes.add(**single(0, 1, **changes))
    episodes.add(**single(0, 1))
    episodes.add(**single(0, 2))
    with pytest.raises(ValueError, match="an episode must fit the buffer of 3 transitions"):
        episodes.add(**single(0, 3))
    [episode] = episodes.truncate()
    assert episode.observations["place"][:, 2].tolist() == [0, 1, 2, 3]


def test_zeros_of_both_signs_are_equal_and_nans_are_equal():
    episodes = opened()
    first, second = single(0, 0), single(0, 1)
    first["next_obs"]["place"] = np.array([np.nan, 0.0, 1.0])
    second["obs"]["place"] = np.array([np.nan, -0.0, 1.0])
    episodes.add(**first)
    episodes.add(**second)
    assert episodes.copy()[1].tolist() == [2]


def test_resumed_episodes_must_have_the_given_lengths():
    episodes = opened()
    episodes.add(**single(0, 0))
    is_single, lengths, copies = episodes.copy()
    for wrong in (lengths + 1, np.array([1, 1]), np.array([0])):
        with pytest.raises(ValueError, match="expected open episodes of"):
            opened().resume(is_single, wrong, copies)
    episodes.discard()
    assert episodes.copy()[1].tolist() == []
