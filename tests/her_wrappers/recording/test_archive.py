"""EpisodeArchive: added episodes are read back exactly."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from her_envs import PointReach, TaskEnv
from her_wrappers import (
    CorruptFileError,
    EpisodeArchive,
    EpisodeRecorder,
    Episodes,
    InUseError,
    SinkError,
)
from her_wrappers.recording import archive as archive_module
from her_wrappers.recording import manifest, shards
from tests.support.archived_episodes import (
    NESTED,
    Nested,
    assert_same_episodes,
    files,
    random_episode,
)
from tests.support.bundled import VARIANTS, ids, make


@given(
    lengths=st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=4),
    shard_steps=st.integers(1, 30),
    together=st.booleans(),
    with_env=st.booleans(),
)
@settings(max_examples=40)
def test_added_episodes_are_read_back(tmp_path_factory, lengths, shard_steps, together, with_env):
    """The archive is closed and opened again for each list of lengths."""
    folder = tmp_path_factory.mktemp("archive")
    env = Nested() if with_env else None
    added = []
    for session in lengths:
        episodes = [random_episode(length, seed=len(added) + i) for i, length in enumerate(session)]
        with EpisodeArchive(folder, env=env, shard_steps=shard_steps) as archive:
            if together:
                archive.add_episodes(episodes)
            else:
                for episode in episodes:
                    archive(episode)
            added += episodes
            assert (len(archive), archive.num_steps) == (len(added), sum(map(len, added)))
        assert (len(archive), archive.num_steps) == (len(added), sum(map(len, added)))
    archive = EpisodeArchive(folder)
    assert (len(archive), archive.num_steps) == (len(added), sum(map(len, added)))
    if added or (lengths and with_env):
        assert_same_episodes(archive, added)
        assert_same_episodes([episode for batch in archive.batches() for episode in batch], added)
    for batch in archive.batches() if added else ():
        longest = batch.lengths.max()
        assert batch.num_steps < shard_steps + longest


@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_it_is_a_sink_and_a_source_for_every_bundled_environment(tmp_path, env_id, options):
    env, episodes = make(env_id, **options), []
    env.action_space.seed(0)
    with EpisodeArchive(tmp_path, env=env) as archive:
        recorder = EpisodeRecorder(env, archive, episodes.append, info_keys=["is_success"])
        recorder.reset(seed=0)
        for _ in range(60):
            if any(recorder.step(env.action_space.sample())[2:4]):
                recorder.reset()
        recorder.close()
    archive = EpisodeArchive(tmp_path)
    assert_same_episodes(archive, episodes)
    assert archive.observation_space == env.observation_space
    assert archive.action_space == env.action_space
    assert archive.source.env_id == env.spec.id


def test_flat_observations_are_archived_as_they_are(tmp_path):
    env = gym.wrappers.FlattenObservation(TaskEnv(PointReach()))
    episodes = [random_episode(length, env=env) for length in (3, 1)]
    with EpisodeArchive(tmp_path, env=env) as archive:
        archive.add_episodes(episodes)
    assert_same_episodes(EpisodeArchive(tmp_path), episodes)


def test_a_vector_environment_has_the_same_source_as_a_single_one(tmp_path):
    single, vector = gym.make("her_envs/PointReach-v0"), gym.make_vec("her_envs/PointReach-v0", num_envs=3)
    EpisodeArchive(tmp_path, env=single).close()
    EpisodeArchive(tmp_path, env=vector).close()


def test_numpy_can_load_a_shard(tmp_path):
    episode = random_episode(4)
    with EpisodeArchive(tmp_path, env=Nested()) as archive:
        archive(episode)
    assert files(tmp_path) == ["lock", "manifest.json", "shard-000000.npz"]
    with np.load(tmp_path / "shard-000000.npz", allow_pickle=False) as shard:
        np.testing.assert_array_equal(shard["observations/image"], episode.observations["image"])
        np.testing.assert_array_equal(shard["observations/a%2Fb"], episode.observations["a/b"])
        np.testing.assert_array_equal(shard["infos/is_success"], episode.infos["is_success"])
        assert shard["lengths"].tolist() == [4]


def test_the_manifest_is_readable_json(tmp_path):
    env = gym.make("her_envs/BitFlipping-v0", n_bits=3)
    with EpisodeArchive(tmp_path, env=env, shard_steps=5) as archive:
        archive.add_episodes([random_episode(length, env=env) for length in (4, 3, 2)])
    content = json.loads((tmp_path / "manifest.json").read_text())
    assert (content["episodes"], content["steps"]) == (3, 9)
    assert content["source"]["env_id"] == "her_envs/BitFlipping-v0"
    assert content["source"]["kwargs"]["n_bits"] == 3
    assert set(content["versions"]) == {"her-toolkit", "gymnasium", "numpy"}
    assert [(shard["file"], shard["episodes"], shard["steps"]) for shard in content["shards"]] == [
        ("shard-000000.npz", 2, 7),
        ("shard-000001.npz", 1, 2),
    ]


class Unspeakable:
    """An object whose __repr__ raises."""

    def __repr__(self):
        raise OSError("no")


def test_arguments_that_json_cannot_store_are_stored_as_repr(tmp_path):
    env = gym.make("her_envs/PointReach-v0")
    told = {"radius": 0.25, "name": None, "sizes": [1, {"a": 2}]}
    printed = {"pair": (1, 2), "goal": np.zeros(2), "infinite": np.inf, "keys": {1: 2}, "set": {1}}
    env.spec.kwargs.clear()
    env.spec.kwargs.update(told | printed | {"hidden": Unspeakable()})
    EpisodeArchive(tmp_path, env=env).close()
    source = EpisodeArchive(tmp_path).source
    assert source.kwargs == told
    assert source.kwargs_as_text == {name: repr(value) for name, value in printed.items()} | {
        "hidden": "<Unspeakable>"
    }


def test_episodes_are_copied_when_they_are_added(tmp_path):
    episode = random_episode(3)
    with EpisodeArchive(tmp_path) as archive:
        archive(episode)
        for array in (episode.rewards, episode.observations["image"], episode.infos["is_success"]):
            array[:] = 1
        episode.reset_info["more"] = np.ones(1)
    assert_same_episodes(archive, [random_episode(3)])


def test_infos_of_other_dtypes_are_in_separate_shards(tmp_path):
    """Integers and floats in one array would all become floats."""
    infos = [{"cost": np.array([2**60 + 1])}, {"cost": np.array([0.5])}, {}, {"cost": np.array([True])}]
    resets = [{"seed": np.array(7)}, {"seed": np.array("seven")}, {}, {"seed": np.zeros(3, np.float32)}]
    episodes = [
        random_episode(1, infos=info, reset_info=reset) for info, reset in zip(infos, resets, strict=True)
    ]
    with EpisodeArchive(tmp_path) as archive:
        archive.add_episodes(episodes[:1])
        for episode in episodes[1:]:
            archive(episode)
    assert_same_episodes(archive, episodes)


def test_strings_of_all_lengths_share_a_shard(tmp_path):
    words = ["a", "longer", "mid"]
    with EpisodeArchive(tmp_path) as archive:
        for word in words:
            archive(random_episode(1, infos={"word": np.array([word])}))
    assert [episode.infos["word"].tolist() for episode in archive] == [[word] for word in words]
    assert files(tmp_path)[2:] == ["shard-000000.npz"]


def test_large_episodes_fill_a_shard_by_their_size_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_BYTES", 2000)
    with EpisodeArchive(tmp_path) as archive:
        archive.add_episodes([random_episode(5, seed) for seed in range(20)])
        assert len(files(tmp_path)) > 5


def test_episodes_are_on_disk_after_flush(tmp_path):
    with EpisodeArchive(tmp_path, env=Nested(), shard_steps=10) as archive:
        archive(random_episode(3))
        assert len(EpisodeArchive(tmp_path)) == 0
        archive.flush()
        archive.flush()
        assert len(EpisodeArchive(tmp_path)) == 1
        archive(random_episode(4))
        archive(random_episode(5))
        assert len(EpisodeArchive(tmp_path)) == 1
        archive(random_episode(6))
        reader = EpisodeArchive(tmp_path)
        assert len(reader) == 4
        archive(random_episode(11))
        assert len(list(reader)) == 4, "a reader sees what was there when it was opened"
        assert_same_episodes(archive, [random_episode(length) for length in (3, 4, 5, 6, 11)])


def test_a_program_that_ends_without_closing_loses_nothing(tmp_path):
    code = f"""
from her_wrappers import EpisodeArchive
from tests.support.archived_episodes import random_episode
archive = EpisodeArchive({str(tmp_path)!r})
archive(random_episode(3))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(3)])


def test_an_archive_that_is_garbage_collected_loses_nothing(tmp_path):
    archive = EpisodeArchive(tmp_path)
    archive(random_episode(3))
    del archive
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(3)])


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    def fill(name):
        monkeypatch.setattr(manifest if name == "write_shard" else archive_module, name, full)

    archive = EpisodeArchive(tmp_path, shard_steps=5)
    archive(random_episode(2))
    for length, function in ((4, "write_shard"), (6, "write_manifest")):
        fill(function)
        with pytest.raises(OSError, match="No space left"):
            archive(random_episode(length))
        with pytest.raises(OSError, match="No space left"):
            archive.close() if function == "write_shard" else archive(random_episode(length + 1))
        monkeypatch.undo()
    assert [len(episode) for episode in archive] == [2, 4, 6, 7]
    archive.close()
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(n) for n in (2, 4, 6, 7)])


def test_episodes_that_an_archive_keeps_while_the_disk_is_full_are_not_in_the_error(tmp_path, monkeypatch):
    env = TaskEnv(PointReach(), max_steps=2)
    archive, listed = EpisodeArchive(tmp_path, env=env, shard_steps=1), []
    recorder = EpisodeRecorder(env, archive, listed.append)

    def full(*_):
        raise OSError(28, "No space left on device")

    def play():
        recorder.reset(seed=0)
        for _ in range(2):
            recorder.step([0, 0])

    monkeypatch.setattr(manifest, "write_shard", full)
    with pytest.raises(SinkError, match=r"on an episode of 2 steps .*No space left") as caught:
        play()
    assert (list(caught.value.episodes), caught.value.episode) == ([], None)
    monkeypatch.undo()
    play()
    assert_same_episodes(archive, listed)
    assert len(listed) == 2


def test_a_recorder_continues_after_an_error_of_an_archive(tmp_path):
    env = TaskEnv(PointReach(), max_steps=2)
    archive = EpisodeArchive(tmp_path, env=env)
    recorder = EpisodeRecorder(gym.wrappers.FlattenObservation(env), archive)
    recorder.reset(seed=0)
    recorder.step([0, 0])
    with pytest.raises(
        SinkError, match="has episodes of other spaces: expected episodes with observations/achieved"
    ):
        recorder.step([0, 0])
    assert len(archive) == 0
    archive(random_episode(3, env=env))
    archive.close()


def test_several_threads_can_add_episodes(tmp_path):
    with EpisodeArchive(tmp_path, shard_steps=20) as archive:
        threads = [
            threading.Thread(target=lambda seed=seed: [archive(random_episode(3, seed)) for _ in range(20)])
            for seed in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(archive), len(list(EpisodeArchive(tmp_path)))) == (80, 80)


def test_an_empty_list_adds_nothing(tmp_path):
    archive = EpisodeArchive(tmp_path / "archive")
    archive.add_episodes([])
    assert not (tmp_path / "archive").exists()


def test_only_one_archive_can_write_to_a_folder(tmp_path):
    first, second = EpisodeArchive(tmp_path), EpisodeArchive(tmp_path)
    first(random_episode(1))
    message = re.escape(f"the archive {tmp_path} is in use: another process or object writes to it; close")
    with pytest.raises(InUseError, match=message):
        second(random_episode(2))
    with pytest.raises(InUseError, match=message):
        EpisodeArchive(tmp_path, env=Nested())
    first.close()
    second(random_episode(2))
    second.close()
    first(random_episode(3))
    first.close()
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(n) for n in (1, 2, 3)])


def test_a_forked_process_cannot_write(tmp_path):
    """A worker of an AsyncVectorEnv can be a forked process."""
    code = f"""
import os, sys
from her_wrappers import EpisodeArchive
from tests.support.archived_episodes import random_episode
archive = EpisodeArchive({str(tmp_path)!r})
archive(random_episode(3))
if os.fork() == 0:
    for use in (lambda: archive(random_episode(4)), lambda: list(archive), archive.flush):
        try:
            use()
        except RuntimeError as error:
            print(error, flush=True)
    archive.close()
    sys.exit()
os.wait()
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told.count("was opened before this process was forked") == 3
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(3)])


def test_batches_are_sequences_of_episodes(tmp_path):
    with EpisodeArchive(tmp_path) as archive:
        archive.add_episodes([random_episode(3), random_episode(4)])
    (batch,) = archive.batches()
    assert isinstance(batch, Episodes)
    assert batch.lengths.tolist() == [3, 4]


def test_reading_names_a_missing_shard(tmp_path):
    with EpisodeArchive(tmp_path) as archive:
        archive(random_episode(3))
    (tmp_path / "shard-000000.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"shard-000000\.npz"):
        list(EpisodeArchive(tmp_path))


def test_shards_with_swapped_names_are_errors(tmp_path):
    with EpisodeArchive(tmp_path, shard_steps=1) as archive:
        archive.add_episodes([random_episode(3), random_episode(4)])
    first, second = tmp_path / "shard-000000.npz", tmp_path / "shard-000001.npz"
    first.write_bytes(second.read_bytes())
    with pytest.raises(
        CorruptFileError, match=r"shard-000000\.npz has another checksum than the manifest lists"
    ):
        list(EpisodeArchive(tmp_path))


def test_an_unlisted_shard_of_another_archive_is_an_error(tmp_path):
    for name in ("one", "other"):
        with EpisodeArchive(tmp_path / name) as archive:
            archive(random_episode(3))
    (tmp_path / "one" / "shard-000001.npz").write_bytes(
        (tmp_path / "other" / "shard-000000.npz").read_bytes()
    )
    with pytest.raises(
        CorruptFileError, match=r"shard-000001\.npz belongs to another archive, or was renamed; move it"
    ):
        EpisodeArchive(tmp_path / "one")


def test_an_archive_of_version_0_1_can_be_read_and_added_to(tmp_path):
    """Three episodes in two shards, written by version 0.1.0."""
    folder = tmp_path / "archive"
    shutil.copytree(Path(__file__).parents[2] / "data" / "v0.1" / "archive", folder)
    old = [random_episode(n, seed=n) for n in (3, 4, 2)]
    archive = EpisodeArchive(folder)
    assert (archive.observation_space, archive.versions["her-toolkit"]) == (NESTED, "0.1.0")
    assert_same_episodes(archive, old)
    with EpisodeArchive(folder, env=Nested()) as archive:
        archive(random_episode(5))
    assert_same_episodes(EpisodeArchive(folder), [*old, random_episode(5)])
