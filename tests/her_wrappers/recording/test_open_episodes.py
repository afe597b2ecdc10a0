"""OpenEpisodes: transitions of one episode continue each other. Random programs test the rest."""

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
    ({"obs": single(0, 5)["obs"]}, ValueError, "must equal the previous next_obs, but observation/place"),
    ({"info": {}}, ValueError, "info has no 'place' at step 1"),
    ({"skip": True}, ValueError, "its episode has not ended"),
    ({"skip": 1}, TypeError, "skip must be one bool"),
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
    with pytest.raises(ValueError, match="the open episode already has 3 steps"):
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


LAST = {"place": np.array([0.0, 0, 1]), "nested": {"odd": 1}}


def rows_of(place):
    return {"place": np.array([place, place], float), "nested": {"odd": np.array([0, 0])}}


def objects(*values):
    array = np.empty(2, object)
    array[:] = values
    return array


FORMS = {
    "dict of objects": {"final_obs": objects(None, LAST), "_final_obs": np.array([False, True])},
    "former name": {"final_observation": objects(None, LAST)},
    "dict of arrays": {"final_obs": rows_of([0, 0, 1]), "_final_obs": np.array([False, True])},
    "sb3's name in a dict": {"terminal_observation": objects(None, LAST)},
    "list": [{}, {"final_obs": LAST, "final_info": {"place": LAST["place"]}, "place": np.zeros(3)}],
    "list of sb3": [{}, {"terminal_observation": LAST, "place": LAST["place"]}],
    "list with former name": [{}, {"final_observation": LAST, "place": LAST["place"]}],
}


@pytest.mark.parametrize("form", FORMS)
def test_the_last_state_is_read_from_every_form_of_infos(form):
    keys = ["place"] if form.startswith("list") else []
    episodes = OpenEpisodes(Numbered.observation_space, Numbered.action_space, keys, 9)
    infos = FORMS[form]
    if keys:
        infos = [{"place": np.zeros(3)}, infos[1]]
    no, new = np.zeros(2, bool), rows_of([0, 1, 0])
    ends = np.array([False, True])
    (episode,) = episodes.add(rows_of([0, 0, 0]), np.zeros((2, 2)), np.zeros(2), new, no, ends, infos, None)
    assert episode.observations["place"].tolist() == [[0, 0, 0], [0, 0, 1]]
    for key in keys:
        assert episode.infos[key].tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("name", ["final_obs", "terminal_observation"])
def test_the_last_state_of_a_single_environment_that_resets_itself_is_in_its_info(name):
    episodes, step = opened(), single(0, 0, terminated=True)
    step |= {"next_obs": single(1, 0)["obs"], "info": {name: LAST, "place": LAST["place"]}}
    assert episodes.add(**step)[0].observations["place"][:, 2].tolist() == [0, 1]


def test_a_skipped_reset_of_a_single_environment_adds_nothing():
    episodes = opened()
    episodes.add(**single(0, 0, truncated=True))
    assert episodes.add(**single(1, 0, skip=True)) is None
    assert episodes.copy()[1].tolist() == [0]
