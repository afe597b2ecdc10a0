"""Sinks: each gets every episode once, in the form it asks for, whatever the others do."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from her_wrappers import Episode, Episodes, SinkError
from her_wrappers.recording.sinks import Sinks


def episode(length):
    return Episode(np.zeros(length + 1), np.zeros(length), np.zeros(length), terminated=True, truncated=False)


class Store:
    """Takes one episode or many, and notes which."""

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
def test_what_takes_many_gets_all_that_ended_together_however_it_is_spelled(spelled):
    store = Store()
    Sinks([spelled(store)]).deliver(Episodes.of([episode(2), episode(5)]), None)
    assert store.calls == [[2, 5]]


def test_a_single_episode_goes_the_shorter_way():
    store = Store()
    for sink in (store.add_episode, store.add_episodes, store):
        Sinks([sink]).deliver(episode(3), None)
    assert store.calls == [3, [3], [3]]


def test_other_methods_and_functions_get_one_episode_a_call():
    store, listed = Store(), []
    Sinks([store.unrelated, listed.append]).deliver(Episodes.of([episode(2), episode(5)]), None)
    assert store.calls == ["unrelated"] * 2
    assert [len(each) for each in listed] == [2, 5]


def test_an_error_carries_what_was_refused_and_everybody_is_served():
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


def test_what_takes_many_refuses_all_or_none():
    class Full(Store):
        def add_episodes(self, episodes):
            raise MemoryError("full")

    episodes = Episodes.of([episode(1), episode(2)])
    with pytest.raises(SinkError, match=r"on 2 episodes, .*Full.* raised MemoryError: full") as caught:
        Sinks([Full()]).deliver(episodes, None)
    assert caught.value.episodes is episodes


class Buffer(Store):
    """Needs two infos, as a buffer does that was made with ``info_keys``."""

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
def test_what_cannot_take_episodes_is_refused_at_once(sink):
    with pytest.raises(TypeError, match="a sink must be callable with an Episode or have add_episodes, got"):
        Sinks([sink])
