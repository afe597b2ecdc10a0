"""EpisodeArchive: interrupts, and the list of shards in the manifest."""

from __future__ import annotations

import json

import pytest

from her_wrappers import EpisodeArchive
from her_wrappers.recording import archive as archive_module
from her_wrappers.recording import space_json
from tests.support.archived_episodes import Nested, assert_same_episodes, files, random_episode
from tests.support.interrupts import Countdown, count_instructions

FILES = "her_wrappers/recording", "her_wrappers/files"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files closed by deletion
@pytest.mark.parametrize("stride", [397, pytest.param(7, marks=pytest.mark.slow)])
def test_an_interrupt_leaves_a_usable_archive_without_wrong_or_repeated_episodes(tmp_path, stride):
    before, block, after = random_episode(4, 0), [random_episode(4, i) for i in (1, 2, 3)], random_episode(2)

    def use(folder, opened):
        with EpisodeArchive(folder, env=Nested(), shard_steps=6) as archive:
            opened.append(archive)
            archive.add_episodes(block)

    count = count_instructions(lambda: use(tmp_path / "whole", []), *FILES)
    for number in range(0, count, stride):
        folder, opened = tmp_path / str(number), []
        with EpisodeArchive(folder, shard_steps=6) as archive:
            archive(before)
        with Countdown(number, *FILES).running(), pytest.raises(KeyboardInterrupt):
            use(folder, opened)
        for archive in opened:
            archive.close()  # as a user does after an interrupt at the beginning of `__exit__`
        with EpisodeArchive(folder, shard_steps=6) as archive:
            known = len(archive)
            archive(after)
        found = list(EpisodeArchive(folder))
        assert len(found) == known + 1
        assert_same_episodes(found, [before, *block[: known - 1], after])


def test_shards_beyond_the_maximum_of_the_manifest_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_module, "MAX_LISTED", 2)
    episodes = [random_episode(length) for length in (1, 2, 3, 4)]
    with EpisodeArchive(tmp_path, shard_steps=1) as archive:
        archive.add_episodes(episodes)
    assert len(json.loads((tmp_path / "manifest.json").read_text())["shards"]) == 2
    assert_same_episodes(EpisodeArchive(tmp_path), episodes)


def test_an_environment_with_a_description_that_is_too_long_is_an_error(tmp_path, monkeypatch):
    """An image space with different bounds for each pixel has a long description."""
    monkeypatch.setattr(space_json, "MAX_SOURCE", 300)
    with pytest.raises(ValueError, match="spaces and arguments of env"):
        EpisodeArchive(tmp_path / "archive", env=Nested())
    assert files(tmp_path) == []
