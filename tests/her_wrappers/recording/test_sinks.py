"""Sinks: each sink gets every episode once, also if another sink raises."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from her_wrappers import Episode, Episodes, SinkError
from her_wrappers.recording.sinks import Sinks


def episode(length):
    return Episode(np.zeros(length + 1), np.zeros(length), np.zeros(length), terminated=True, truncated=False)


class Store:
    """A sink with ``add_episode`` and ``add_episodes``, which store the lengths of the episodes."""

    def __init__(self):
        self.calls = []

    def add_episode(self, episode):
        self.calls.append(len(episode))

    def add_episodes(self, episodes):
        assert isinstance(episodes, Episodes)
        self.calls.append(episodes.lengths.tolist())

    def unrelated(self, episode):
        self.calls.append("unrelated")


@pytest.mark.parametrize("spelled", [lambda s: s, lambda s: s.add_episode, lambda s: s.add_episodes])
def test_a_sink_with_add_episodes_gets_all_episodes_in_one_call(spelled):
    store = Store()
    Sinks([spelled(store)]).deliver(Episodes.of([episode(2), episode(5)]), None)
    assert store.calls == [[2, 5]]


def test_a_single_episode_is_passed_to_add_episode():
    store = Store()
    for sink in (store.add_episode, store.add_episodes, store):
        Sinks([sink]).deliver(episode(3), None)
    assert store.calls == [3, [3], [3]]


def test_other_methods_and_functions_get_one_episode_per_call():
    store, listed = Store(), []
    Sinks([store.unrelated, listed.append]).deliver(Episodes.of([episode(2), episode(5)]), None)
    assert store.calls == ["unrelated"] * 2
    assert [len(each) for each in listed] == [2, 5]


def test_an_error_has_the_episodes_and_all_sinks_are_called():
    served = []

    def picky(episode):
        if len(episode) > 2:
            raise OSError(f"too long: {len(episode)}")

    with pytest.raises(
        SinkError, match=r"on 2 episodes, the first of 3 steps, .*picky.* too long: 3"
    ) as caught:
        Sinks([picky, served.append]).deliver(
            Episodes.of([episode(n) for n in (1, 3, 2, 4)]), (1, 2, 3, 4, 5)
        )
    assert [len(each) for each in served] == [1, 3, 2, 4]
    assert [len(each) for each in caught.value.episodes] == [3, 4]
    assert len(caught.value.episode) == 3
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), copied.result) == (str(caught.value), (1, 2, 3, 4, 5))


def test_an_error_of_add_episodes_has_all_episodes():
    class Full(Store):
        def add_episodes(self, episodes):
            raise MemoryError("full")

    episodes = Episodes.of([episode(1), episode(2)])
    with pytest.raises(SinkError, match=r"on 2 episodes, .*Full.* raised MemoryError: full") as caught:
        Sinks([Full()]).deliver(episodes, None)
    assert caught.value.episodes is episodes


class Buffer(Store):
    """A sink that needs two infos."""

    info_keys = ("twice", "odd")


@pytest.mark.parametrize("spelled", [lambda s: s, lambda s: s.add_episode, lambda s: s.add_episodes])
def test_the_info_keys_of_all_sinks_are_joined(spelled):
    other = Buffer()
    other.info_keys = ["odd", "cost"]
    assert Sinks([[].append, spelled(Buffer()), spelled(other)]).info_keys == ("twice", "odd", "cost")


def test_info_keys_of_a_sink_that_are_not_strings_are_an_error():
    sink = Buffer()
    sink.info_keys = "odd"
    with pytest.raises(TypeError, match=r"info_keys of .*Buffer.* must be a list of strings, got .* 'odd'"):
        Sinks([sink])


@pytest.mark.parametrize("sink", [5, None, "list.append", object()])
def test_an_object_that_is_not_a_sink_is_an_error(sink):
    with pytest.raises(TypeError, match="a sink must be callable with an Episode or have add_episodes, got"):
        Sinks([sink])
