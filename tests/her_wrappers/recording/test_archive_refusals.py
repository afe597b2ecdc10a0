"""EpisodeArchive: episodes that it cannot store raise one clear error, and nothing is added."""

import gymnasium as gym
import numpy as np
import pytest

import her_envs  # noqa: F401 - registers ids
from her_wrappers import CorruptFileError, EpisodeArchive
from tests.support.archived_episodes import Nested, assert_same_episodes, files, random_episode

REACH = gym.make("her_envs/PointReach-v0")


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (gym.make("her_envs/PointMaze-v0"), "env_id"),
        (gym.wrappers.FlattenObservation(REACH), "observation_space"),
        (gym.wrappers.RescaleAction(REACH, -2, 2), "action_space"),
    ],
)
def test_an_archive_of_another_environment_is_an_error(tmp_path, env, name):
    EpisodeArchive(tmp_path, env=REACH).close()
    with pytest.raises(ValueError, match=f"has episodes with {name} .*, but env has {name} .*; choose"):
        EpisodeArchive(tmp_path, env=env)
    EpisodeArchive(tmp_path, env=REACH).close()


def test_an_archive_without_an_environment_gets_none_later(tmp_path):
    with EpisodeArchive(tmp_path) as archive:
        archive(random_episode(1))
    assert archive.observation_space is None
    with pytest.raises(ValueError, match=r"was created without an environment; open it without env"):
        EpisodeArchive(tmp_path, env=Nested())


WRONG = {"image": np.zeros((4, 3), np.uint8), "a/b": np.full(4, 0.5), "more": np.zeros(4)}
KNOWN = "from the environment", "from the first episode", "from the first shard"


@pytest.mark.parametrize(("name", "known"), [*zip(WRONG, KNOWN, strict=True)])
def test_episodes_of_other_spaces_are_errors_and_nothing_is_added(tmp_path, known, name):
    archive = EpisodeArchive(tmp_path, env=Nested() if known == "from the environment" else None)
    archive(random_episode(3))
    if known == "from the first shard":
        archive.close()
        archive = EpisodeArchive(tmp_path)
    wrong = random_episode(3, observations=random_episode(3).observations | {name: WRONG[name]})
    with pytest.raises(ValueError, match=f"observations/{name}"):
        archive.add_episodes([random_episode(2), wrong])
    assert len(archive) == 1
    floats = random_episode(3).observations["a/b"].astype(np.float64)  # are cast exactly
    archive(random_episode(3, observations=random_episode(3).observations | {"a/b": floats}))
    assert_same_episodes(archive, [random_episode(3)] * 2)


@pytest.mark.parametrize(
    ("given", "error", "name"),
    [
        (5, TypeError, "must be an Episode"),
        (random_episode(1, infos={"a": np.array([{}])}), TypeError, "infos/a"),
        (random_episode(1, reset_info={"a": np.array([None])}), TypeError, "reset_infos/a"),
        (random_episode(1, observations={1: np.zeros(2)}), TypeError, "keys of observations must be"),
    ],
)
def test_an_invalid_episode_is_an_error_and_the_archive_can_be_used_further(tmp_path, given, error, name):
    with EpisodeArchive(tmp_path) as archive:
        archive(random_episode(2))
        with pytest.raises(error, match=name):
            archive(given)
        archive(random_episode(3))
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(2), random_episode(3)])


def test_folders_with_other_files_do_not_change(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(FileExistsError, match=r"it contains 'thesis\.tex'"):
        EpisodeArchive(tmp_path, env=Nested())
    with pytest.raises(FileExistsError, match=r"it contains 'thesis\.tex'"):
        EpisodeArchive(tmp_path)(random_episode(1))
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("thesis.tex", "link"):
        with pytest.raises(NotADirectoryError, match=name):
            EpisodeArchive(tmp_path / name, env=Nested())
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(CorruptFileError, match="not the manifest of an archive"):
        EpisodeArchive(tmp_path, env=Nested())
    assert files(tmp_path) == ["link", "manifest.json", "thesis.tex"]
