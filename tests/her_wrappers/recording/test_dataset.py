"""Dataset: any object with the interface of Minari's datasets can be read."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from her_wrappers.recording.dataset import Dataset, EpisodeErrors, episodes_of
from tests.support.counting import counting_buffer, counting_episode


class Recorded:
    """Counting episodes of some lengths with the interface of a Minari dataset."""

    def __init__(self, *lengths, infos=None):
        self.lengths, self.infos = lengths, infos

    def iterate_episodes(self):
        for number, length in enumerate(self.lengths):
            episode = counting_episode(number, length)
            last = np.arange(length) == length - 1
            yield SimpleNamespace(
                id=number,
                observations=episode.observations,
                actions=episode.actions,
                rewards=episode.rewards,
                terminations=np.zeros(length, bool),
                truncations=last,
                infos=self.infos,
            )


def test_a_buffer_accepts_an_object_with_the_interface_of_a_dataset():
    buffer = counting_buffer(buffer_size=6)
    buffer.extend(Recorded(3, 1, 2))
    for number, episode in enumerate(buffer.episodes()):
        assert (episode.terminated, episode.truncated, len(episode)) == (False, True, (3, 1, 2)[number])
        assert set(episode.observations["observation"][:, 0]) == {number}
    with pytest.raises(ValueError, match="must fit the buffer of 6 transitions, got 9 steps"):
        buffer.extend(Recorded(4, 9))
    assert len(list(buffer.episodes())[-1]) == 4, "episodes before an invalid one stay"


def test_infos_of_states_are_split_into_reset_info_and_infos():
    infos = {
        "cost": np.arange(4.0),
        "deep": {"force": np.arange(3)},
        "name": np.array([b"a", b"b", b"c"], object),
    }
    (episode,) = episodes_of(Recorded(3, infos=infos), EpisodeErrors("raise"))
    assert episode.reset_info["cost"] == 0
    assert episode.infos["cost"].tolist() == [1, 2, 3]
    assert episode.infos["deep/force"].tolist() == [0, 1, 2]
    assert episode.infos["name"].tolist() == ["a", "b", "c"]


def test_episodes_and_buffers_are_not_datasets():
    assert isinstance(Recorded(), Dataset)
    for other in ([], counting_episode(0, 3), counting_buffer(), "some/thing-v0"):
        assert not isinstance(other, Dataset)
