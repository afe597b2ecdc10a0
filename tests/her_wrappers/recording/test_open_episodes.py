"""OpenEpisodes: transitions of one episode continue each other. Random programs test the rest."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers.recording.open_episodes import OpenEpisodes
from tests.support.numbered import Numbered


def opened(max_steps=1000):
    return OpenEpisodes(Numbered.observation_space, Numbered.action_space, ["place"], max_steps)


def single(episode, t, **changes):
    place = [{"place": np.array([0.0, episode, t + k]), "nested": {"odd": (t + k) % 2}} for k in (0, 1)]
    parts = {"obs": place[0], "action": np.zeros(2), "reward": 0.0, "next_obs": place[1], "terminated": False}
    parts |= {"truncated": False, "info": {"place": place[1]["place"]}, "skip": None}
    return parts | changes


BAD = [
    ({"obs": single(0, 5)["obs"]}, ValueError, "obs must equal the previous next_obs: observation/place"),
    ({"info": {}}, ValueError, "info has no 'place' at step 1"),
    ({"skip": True}, ValueError, "skip must be None"),
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
    episodes.resume(False, np.zeros(2, int), None)
    assert episodes.copy()[1].tolist() == [0, 0]
