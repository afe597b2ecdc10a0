"""Sinks: each sink gets every episode once, also if another sink raises."""

import pickle

import numpy as np
import pytest

from her_wrappers import Episode, Episodes, SinkError
from her_wrappers.recording.sinks import Sinks


def episodes_of(*lengths):
    return Episodes.of([
        Episode(np.zeros(n + 1), np.zeros(n), np.zeros(n), terminated=True, truncated=False) for n in lengths
    ])


class Store:
    """A sink with ``add_episode`` and ``add_episodes``, which store the lengths of the episodes."""

    info_keys = ("twice", "odd")

    def __init__(self):
        self.calls = []

    def add_episode(self, episode):
        raise AssertionError

    def add_episodes(self, episodes):
        assert isinstance(episodes, Episodes)
        self.calls.append(episodes.lengths.tolist())

    def unrelated(self, episode):
        self.calls.append("unrelated")


SPELLINGS = [lambda s: s, lambda s: s.add_episode, lambda s: s.add_episodes]


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_sink_with_add_episodes_gets_all_episodes_in_one_call_and_its_info_keys_are_joined(spelled):
    store, other = Store(), Store()
    other.info_keys = ["odd", "cost"]
    sinks = Sinks([[].append, spelled(store), spelled(other)])
    sinks.deliver(episodes_of(2, 5))
    assert store.calls == other.calls == [[2, 5]]
    assert sinks.info_keys == ("twice", "odd", "cost")


def test_other_methods_and_functions_get_one_episode_per_call():
    store, listed = Store(), []
    Sinks([store.unrelated, listed.append]).deliver(episodes_of(2, 5))
    assert store.calls == ["unrelated"] * 2
    assert [len(each) for each in listed] == [2, 5]


def test_an_error_has_the_episodes_and_all_sinks_are_called():
    served, store = [], Store()

    def picky(episode):
        if len(episode) > 2:
            raise OSError(f"too long: {len(episode)}")

    def also_picky(episode):
        if len(episode) == 4:
            raise KeyError("gone")

    result = (1, 2, 3, 4, 5)
    message = (
        r"delivering 2 episodes, the first of 3 steps, failed: "
        r".*picky.* too long: 3; .*also_picky raised KeyError: 'gone'"
    )
    with pytest.raises(SinkError, match=message) as caught:
        Sinks([picky, also_picky, store, served.append]).deliver(episodes_of(1, 3, 2, 4), result)
    assert [len(each) for each in served] == store.calls[0] == [1, 3, 2, 4]
    copied = pickle.loads(pickle.dumps(caught.value))
    for error in (caught.value, copied):
        assert [len(each) for each in error.episodes] == [3, 4]
        assert (str(error), error.result) == (str(caught.value), result)


def test_an_object_that_is_not_a_sink_is_an_error():
    wrong = Store()
    wrong.info_keys = "odd"
    for sink, message in ((5, "callable"), ([], "method append"), (wrong, "must be a list of strings")):
        with pytest.raises(TypeError, match=message):
            Sinks([sink])


def test_a_sink_is_given_once():
    store = Store()
    for twice in ([store, store.add_episode], [store.add_episodes, store], [[].append] * 2):
        with pytest.raises(ValueError, match="given once"):
            Sinks(twice)
    Sinks([store, Store(), [].append, [].append])
