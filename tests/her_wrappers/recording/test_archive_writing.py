"""EpisodeArchive: content of shards, interrupts, and the manifest."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import numpy as np
import pytest

from her_wrappers import EpisodeArchive, Episodes
from her_wrappers.recording import archive as archive_module
from her_wrappers.recording import manifest, shards, space_json
from her_wrappers.recording.manifest import Shard, read_manifest, write_manifest
from tests.support.archived_episodes import (
    Nested,
    assert_same,
    assert_same_episodes,
    files,
    random_episode,
)


@pytest.mark.parametrize("shard_steps", [7, 100])
def test_alternating_dtypes_share_shards_and_keep_their_values(tmp_path, shard_steps):
    """Integers and floats are in separate shards, and these shards are full as well."""
    costs = [np.array([2**60 + i]) if i % 2 else np.array([i / 4]) for i in range(60)]
    with EpisodeArchive(tmp_path, shard_steps=shard_steps) as archive:
        for cost in costs:
            archive(random_episode(1, infos={"cost": cost}))
        assert (len(archive), archive.num_steps) == (60, 60)
    found = [episode.infos["cost"] for episode in EpisodeArchive(tmp_path)]
    for dtype in (np.int64, np.float64):
        expected = [cost for cost in costs if cost.dtype == dtype]
        assert_same(tuple(cost for cost in found if cost.dtype == dtype), tuple(expected))
    assert len(files(tmp_path)) - 2 == 2 * -(-30 // shard_steps)


def test_pending_episodes_of_many_dtypes_do_not_fill_the_memory(tmp_path):
    with EpisodeArchive(tmp_path, shard_steps=10) as archive:
        for i in range(25):
            archive(random_episode(1, infos={f"info {i}": np.zeros(1)}))
        assert len(EpisodeArchive(tmp_path)) == 20
    assert_same_episodes(archive, [random_episode(1, infos={f"info {i}": np.zeros(1)}) for i in range(25)])


KINDS = [np.array([2**53 + 1, 7]), np.array([0.5, 1.5]), np.array([True, False]), np.array([2**53 + 3, 1])]


@pytest.mark.parametrize("together", [False, True])
def test_episodes_of_different_dtypes_are_exact_one_by_one_and_as_a_list(tmp_path, together):
    episodes = [random_episode(2, infos={"cost": cost}) for cost in KINDS]
    with EpisodeArchive(tmp_path) as archive:
        if together:
            archive.add_episodes(episodes)
        else:
            for episode in episodes:
                archive(episode)
    found = {
        str(infos["cost"].dtype): [] for infos in (episode.infos for episode in EpisodeArchive(tmp_path))
    }
    for episode in EpisodeArchive(tmp_path):
        found[str(episode.infos["cost"].dtype)] += episode.infos["cost"].tolist()
    assert found == {"int64": [2**53 + 1, 7, 2**53 + 3, 1], "float64": [0.5, 1.5], "bool": [True, False]}


@contextmanager
def interrupted_at_line(number):
    """Raise KeyboardInterrupt when the modules of the archive have executed ``number`` lines."""
    left, others = number, sys.gettrace()

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename not in {module.__file__ for module in (archive_module, manifest, shards)}:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(others)


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_line_neither_loses_nor_duplicates_an_episode(tmp_path, stride):
    """Either all or none of the episodes of the interrupted call are in the archive."""
    before, block = random_episode(4, 0), [random_episode(4, seed) for seed in (1, 2, 3)]
    line, interrupted = 0, True
    while interrupted:
        folder = tmp_path / str(line)
        archive = EpisodeArchive(folder, shard_steps=6)
        archive(before)
        try:
            with interrupted_at_line(line):
                archive.add_episodes(block)
            interrupted = False
        except KeyboardInterrupt:
            line += stride
        archive.close()
        known, found = len(archive), list(EpisodeArchive(folder))
        assert known == len(found)
        assert_same_episodes(found, [before] if len(found) == 1 else [before, *block])
    assert line > 20


def test_last_added_shows_whether_an_interrupted_addition_took_effect(tmp_path):
    block = Episodes.of([random_episode(4, seed) for seed in (1, 2, 3)])
    line, interrupted = 0, True
    while interrupted:
        folder = tmp_path / str(line)
        with EpisodeArchive(folder, shard_steps=6) as archive:
            archive(random_episode(4, 0))
            try:
                with interrupted_at_line(line):
                    archive.add_episodes(block)
                interrupted = False
            except KeyboardInterrupt:
                line += 11
            if archive.last_added is not block:
                archive.add_episodes(block)
        assert_same_episodes(EpisodeArchive(folder), [random_episode(4, 0), *block])


def fill_the_disk(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifest, "write_shard", full)


@pytest.mark.parametrize("reopened", [False, True])
def test_an_archive_that_cannot_write_when_it_is_deleted_warns(reopened, tmp_path, monkeypatch):
    archive = EpisodeArchive(tmp_path)
    if reopened:
        archive(random_episode(4))
        archive.close()
    archive(random_episode(3))
    fill_the_disk(monkeypatch)
    with pytest.warns(
        RuntimeWarning,
        match="the archive .* cannot be written, so 1 of its episodes are lost: .* No space left",
    ):
        del archive
    EpisodeArchive(tmp_path, env=Nested()).close()


def test_lost_episodes_are_reported_once(tmp_path, monkeypatch):
    archive = EpisodeArchive(tmp_path)
    archive(random_episode(3))
    fill_the_disk(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        archive.close()
    del archive  # a warning would be an error


def test_the_manifest_is_rewritten_less_often_with_more_shards(tmp_path, monkeypatch):
    """230 shards need fewer than 180 writes of the manifest, which lists all shards at the end."""
    written = []
    monkeypatch.setattr(
        archive_module, "write_manifest", lambda *given: written.append(given) or write_manifest(*given)
    )
    shards = 230
    monkeypatch.setattr(manifest, "write_shard", lambda *_: 0)
    archive = EpisodeArchive(tmp_path, shard_steps=1)
    for _ in range(shards):
        archive(random_episode(1))
    assert len(written) < 180
    archive.close()
    assert len(read_manifest(tmp_path).shards) == shards


def test_shards_beyond_the_maximum_of_the_manifest_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "MAX_LISTED", 2)
    episodes = [random_episode(length) for length in (1, 2, 3, 4)]
    with EpisodeArchive(tmp_path, shard_steps=1) as archive:
        for episode in episodes:
            archive(episode)
    assert len(read_manifest(tmp_path).shards) == 2
    assert_same_episodes(EpisodeArchive(tmp_path), episodes)


def test_a_full_manifest_can_be_read(tmp_path):
    shard = Shard(episodes=10**9, steps=10**12, checksum=2**32 - 1)
    full = manifest.Manifest("0" * 16, None, {}, (shard,) * manifest.MAX_LISTED)
    write_manifest(tmp_path, full)
    assert (tmp_path / "manifest.json").stat().st_size < manifest.MAX_BYTES - space_json.MAX_SOURCE
    assert read_manifest(tmp_path).shards == full.shards


def test_an_environment_with_a_description_that_is_too_long_is_an_error(tmp_path, monkeypatch):
    """An image space with different bounds for each pixel has a long description."""
    monkeypatch.setattr(space_json, "MAX_SOURCE", 300)
    with pytest.raises(ValueError, match=r"spaces and arguments of env take \d+ bytes as JSON, at most"):
        EpisodeArchive(tmp_path / "archive", env=Nested())
    assert files(tmp_path) == []
