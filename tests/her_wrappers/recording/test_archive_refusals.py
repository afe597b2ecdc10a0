"""EpisodeArchive: episodes that it cannot store raise one clear error, and nothing is added."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import (
    CorruptFileError,
    Episode,
    EpisodeArchive,
)
from tests.support.archived_episodes import (
    NESTED,
    Nested,
    assert_same_episodes,
    files,
    random_episode,
)

REACH = gym.make("her_envs/PointReach-v0")


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            gym.make("her_envs/PointMaze-v0"),
            "has episodes with env_id her_envs/PointReach-v0, got her_envs/PointMaze",
        ),
        (
            gym.wrappers.FlattenObservation(REACH),
            "has episodes with observation_space Dict('achieved_goal': Box(0.0, 1.0, (2,), float32), ",
        ),
        (
            gym.wrappers.RescaleAction(REACH, -2, 2),
            "got Box(-2.0, 2.0, (2,), float32); write to another folder",
        ),
    ],
)
def test_an_archive_of_another_environment_is_an_error(tmp_path, env, message):
    EpisodeArchive(tmp_path, env=REACH).close()
    with pytest.raises(ValueError, match=re.escape(message)):
        EpisodeArchive(tmp_path, env=env)
    EpisodeArchive(tmp_path, env=REACH).close()


def test_an_archive_without_an_environment_stores_a_later_one(tmp_path):
    with EpisodeArchive(tmp_path) as archive:
        archive(random_episode(1))
    assert archive.observation_space is None
    with pytest.raises(ValueError, match="has episodes of other spaces than the environment"):
        EpisodeArchive(tmp_path, env=REACH)
    with EpisodeArchive(tmp_path, env=Nested()) as archive:
        archive(random_episode(2))
    assert EpisodeArchive(tmp_path).observation_space == NESTED
    assert_same_episodes(archive, [random_episode(1), random_episode(2)])


WRONG = {
    "observations/image must have shape (4, 2, 2, 3), got (4, 3)": {"image": np.zeros((4, 3), np.uint8)},
    "observations/a/b must have dtype int64, got float64 with values that": {"a/b": np.full(4, 0.5)},
    "observations/joints/0, observations/joints/1, observations/more": {"more": np.zeros(4)},
}


@pytest.mark.parametrize("message", WRONG)
@pytest.mark.parametrize("known", ["from the environment", "from the first episode", "from the first shard"])
def test_episodes_of_other_spaces_are_errors_and_nothing_is_added(tmp_path, known, message):
    archive = EpisodeArchive(tmp_path, env=Nested() if known == "from the environment" else None)
    archive(random_episode(3))
    if known == "from the first shard":
        archive.close()
        archive = EpisodeArchive(tmp_path)
    wrong = random_episode(3, observations=random_episode(3).observations | WRONG[message])
    with pytest.raises(ValueError, match=re.escape(message)):
        archive.add_episodes([wrong])
    assert len(archive) == 1
    archive(random_episode(3))
    archive.close()


def test_exact_casts_are_applied(tmp_path):
    episode = random_episode(3)
    lists = episode.observations | {"a/b": episode.observations["a/b"].astype(np.float64)}
    with EpisodeArchive(tmp_path, env=Nested()) as archive:
        archive(random_episode(3, observations=lists))
    assert_same_episodes(archive, [episode])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (5, TypeError, "must be an Episode, got int"),
        (
            random_episode(1, infos={"a": np.array([{}])}),
            TypeError,
            "infos/a must hold numbers, bools or strings",
        ),
        (
            Episode({1: np.zeros(2)}, np.zeros(1), np.zeros(1), terminated=True, truncated=False),
            TypeError,
            "observations must have keys that are strings, got 1",
        ),
        (
            random_episode(1, reset_info={"a": np.array([None])}),
            TypeError,
            "reset_infos/a/0 must hold numbers, bools or strings, got dtype object",
        ),
        (
            random_episode(1, infos={"\ud800": np.zeros(1)}),
            ValueError,
            r"infos must have keys that can be encoded as UTF-8, got '\ud800'",
        ),
        (
            random_episode(1, reset_info={"\ud800": np.zeros(1)}),
            ValueError,
            r"reset_infos must have keys that can be encoded as UTF-8, got '\ud800'",
        ),
        (
            random_episode(1, infos={"k" * 70_000: np.zeros(1)}),
            ValueError,
            "must be at most 4000 characters long, got 70006",
        ),
        (
            random_episode(1, infos={"a": np.ndarray(1, "S0")}),
            TypeError,
            "infos/a must hold numbers, bools or strings, got dtype |S0",
        ),
    ],
)
def test_an_invalid_episode_is_an_error_and_the_archive_can_be_used_further(tmp_path, given, error, message):
    with EpisodeArchive(tmp_path) as archive:
        archive(random_episode(2))
        with pytest.raises(error, match=re.escape(message)):
            archive(given)
        assert len(archive) == 1
        archive(random_episode(3))
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(2), random_episode(3)])


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 has no arrays of more than 32 axes"
)
@pytest.mark.parametrize(
    ("kind", "axes", "message"),
    [
        ("infos", 41, "infos/a must have at most 32 axes, got 41"),
        ("reset_info", 32, "reset_infos/a/0 must have at most 32 axes, got 33"),
    ],
)
def test_too_many_axes_are_an_error(tmp_path, kind, axes, message):
    with EpisodeArchive(tmp_path) as archive, pytest.raises(ValueError, match=message):
        archive(random_episode(1, **{kind: {"a": np.zeros((1,) * axes)}}))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"shard_steps": 0}, ValueError, "shard_steps must be a whole number >= 1, got 0"),
        ({"env": "PointReach"}, TypeError, "expected a gymnasium Env or VectorEnv, got str"),
    ],
)
def test_invalid_arguments_are_errors(tmp_path, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        EpisodeArchive(tmp_path / "archive", **options)
    assert files(tmp_path) == []


def spaces_only(observation_space):
    """Return an environment that has only the given observation space and an action space."""
    env = gym.Env()
    env.observation_space, env.action_space = observation_space, spaces.Discrete(2)
    return env


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        (
            spaces.Tuple([spaces.Dict({1: spaces.Discrete(2)})]),
            TypeError,
            "observation_space/0 must have keys that are strings, got 1",
        ),
        (
            spaces.Dict({"\ud800": spaces.Discrete(2)}),
            ValueError,
            "observation_space must have keys that can be encoded as UTF-8",
        ),
        (
            spaces.Box(0, 1, (1,) * 32),
            ValueError,
            "observation_space must have at most 32 axes, got 33",
        ),
    ],
)
def test_spaces_whose_elements_cannot_be_stored_are_errors(tmp_path, space, error, message):
    with pytest.raises(error, match=re.escape(message)):
        EpisodeArchive(tmp_path / "archive", env=spaces_only(space))
    assert files(tmp_path) == []


def test_folders_with_other_files_do_not_change(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    message = "expected an archive or an empty folder, got .* with 'thesis.tex' in it"
    with pytest.raises(FileExistsError, match=message):
        EpisodeArchive(tmp_path, env=Nested())
    with pytest.raises(FileExistsError, match=message):
        EpisodeArchive(tmp_path)(random_episode(1))
    with pytest.raises(NotADirectoryError, match="expected the path of a folder, got the file"):
        EpisodeArchive(tmp_path / "thesis.tex", env=Nested())
    assert files(tmp_path) == ["thesis.tex"]


def test_a_manifest_of_another_program_does_not_change(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(CorruptFileError, match="not the manifest of an archive"):
        EpisodeArchive(tmp_path, env=Nested())
    assert files(tmp_path) == ["manifest.json"]


def test_a_broken_link_is_an_error(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(
        NotADirectoryError,
        match=r"expected the path of a folder, got the link .* to a path that does not exist",
    ):
        EpisodeArchive(tmp_path / "link", env=Nested())


def test_reading_a_folder_without_an_archive_is_an_error(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"there is no archive at .*nowhere: it has no manifest\.json"
    ):
        list(EpisodeArchive(tmp_path / "nowhere"))
    assert files(tmp_path) == []
