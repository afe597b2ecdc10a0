"""Dataset: any object with the interface of Minari's datasets can be read."""

from types import SimpleNamespace

import numpy as np
import pytest

from her_wrappers import EpisodeArchive, Episodes
from her_wrappers.recording.dataset import EpisodeErrors, episodes_of
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


def test_the_error_names_the_bad_episode_and_skip_leaves_it_out():
    buffer = counting_buffer(buffer_size=20)
    with pytest.raises(ValueError, match=r"^episode 0: info 'cost' must have 3 rows .* or 4 rows .*, got 5"):
        buffer.extend(Recorded(3, 2, infos={"cost": np.zeros(5)}))
    with pytest.warns(
        UserWarning, match=r"2 of 5 episodes were skipped; the first error: episode 1: .*21 steps"
    ):
        assert buffer.extend(Recorded(3, 21, 4, 30, 1), on_error="skip") == 2
    assert [len(episode) for episode in buffer.episodes()] == [3, 4, 1]


def with_nan(number):
    return counting_episode(number, 3, rewards=np.array([0.0, np.nan, 0.0]))


@pytest.mark.parametrize("kind", ["list", "generator", "episodes", "archive"])
def test_every_source_can_skip_its_bad_episodes(kind, tmp_path):
    listed = [with_nan(i) if i in {1, 4} else counting_episode(i, 3) for i in range(6)]
    archive = EpisodeArchive(tmp_path, shard_steps=6)
    archive.add_episodes(listed)
    sources = {"list": listed, "generator": iter(listed), "episodes": Episodes.of(listed), "archive": archive}
    buffer = counting_buffer()
    with pytest.warns(UserWarning, match="2 of 6 episodes were skipped; the first error: episode 1: "):
        assert buffer.extend(sources[kind], on_error="skip") == 2
    assert [episode.observations["observation"][0, 0] for episode in buffer.episodes()] == [0, 2, 3, 5]
    with pytest.raises(ValueError, match="episode 4: "):
        counting_buffer().extend(listed[:1] * 4 + listed[4:])
    with pytest.raises(ValueError, match="2 of 2 episodes were skipped"):
        counting_buffer().extend([with_nan(0), with_nan(1)], on_error="skip")
    with pytest.raises(ValueError, match="on_error must be 'raise' or 'skip', got 'ignore'"):
        buffer.extend([], on_error="ignore")
    archive.close()
