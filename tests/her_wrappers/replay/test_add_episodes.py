"""Many episodes are added in one call, from all types of sources."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers import EpisodeArchive, Episodes
from tests.support.buffers import arrays_of, filled
from tests.support.counting import counting_buffer, counting_episode


def lists_of_episodes():
    """Return the same episodes as a list, a generator and `Episodes`."""
    episodes = [counting_episode(number, length) for number, length in enumerate((4, 1, 7, 3))]
    return {
        "list": episodes,
        "generator": (episode for episode in episodes),
        "Episodes": Episodes.of(episodes),
    }


@pytest.mark.parametrize("method", ["add_episodes", "extend"])
@pytest.mark.parametrize("form", ["list", "generator", "Episodes"])
def test_many_episodes_are_added_as_one_by_one(method, form):
    together, apart = counting_buffer(buffer_size=12), counting_buffer(buffer_size=12)
    getattr(together, method)(lists_of_episodes()[form])
    for episode in lists_of_episodes()["list"]:
        apart.add_episode(episode)
    together.verify()
    for array, other in zip(arrays_of(together.sample(50)), arrays_of(apart.sample(50)), strict=True):
        np.testing.assert_array_equal(array, other)


def test_of_more_episodes_than_fit_the_last_ones_stay():
    buffer = counting_buffer(buffer_size=9)
    buffer.add_episodes([counting_episode(number, 1 + number % 4) for number in range(40)])
    buffer.verify()
    assert set(buffer.sample(500).observations["observation"][:, 0]) == {37, 38, 39}


def test_an_archive_is_read_into_a_buffer(tmp_path):
    episodes = lists_of_episodes()["list"]
    with EpisodeArchive(tmp_path / "archive", shard_steps=5) as archive:
        archive.add_episodes(Episodes.of(episodes))
    buffer, other = counting_buffer(), counting_buffer()
    buffer.extend(EpisodeArchive(tmp_path / "archive"))
    other.add_episodes(episodes)
    for array, same in zip(arrays_of(buffer.sample(50)), arrays_of(other.sample(50)), strict=True):
        np.testing.assert_array_equal(array, same)


def test_one_bad_episode_among_many_is_named_and_none_is_stored():
    buffer = filled()
    bad = counting_episode(8, 3, rewards=np.array([-1.0, np.nan, -1.0]))
    with pytest.raises(
        ValueError, match=r"^episodes\[1\]: rewards must be finite as float32, got nan at step 1$"
    ):
        buffer.add_episodes([counting_episode(7, 2), bad])
    assert len(buffer) == 12
    buffer.verify()


def test_an_empty_list_adds_nothing():
    buffer = filled()
    buffer.add_episodes([])
    assert len(buffer) == 12
    with pytest.raises(TypeError, match="must be an Episode, got int"):
        buffer.add_episodes([3])
