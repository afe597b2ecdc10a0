"""EpisodeArchive: added episodes are read back exactly."""

import copy
import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from her_wrappers import Demonstrations, EpisodeArchive, EpisodeRecorder, Episodes, InUseError
from her_wrappers.data.atomic import PART
from her_wrappers.recording import shards
from her_wrappers.recording.archive import LOCK
from tests.support.archived_episodes import Nested, assert_same_episodes, files, random_episode
from tests.support.bundled import VARIANTS, ids, make
from tests.support.counting import counting_episode
from tests.support.equality import assert_same_tree


@given(
    lengths=st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=4),
    shard_steps=st.integers(1, 30),
    together=st.sampled_from([list, iter, Episodes.of, None]),
    with_env=st.booleans(),
)
@settings(max_examples=10)
def test_added_episodes_are_read_back(tmp_path_factory, lengths, shard_steps, together, with_env):
    """The archive is closed and opened again for each list of lengths."""
    folder = tmp_path_factory.mktemp("archive")
    added = []
    for session in lengths:
        episodes = [random_episode(length, seed=len(added) + i) for i, length in enumerate(session)]
        with EpisodeArchive(folder, env=Nested() if with_env else None, shard_steps=shard_steps) as archive:
            if together and episodes:
                archive.add_episodes(together(episodes))
            for episode in () if together else episodes:
                archive(episode)
            added += episodes
            assert (len(archive), archive.num_steps) == (len(added), sum(map(len, added)))
    archive = EpisodeArchive(folder)
    assert (len(archive), archive.num_steps) == (len(added), sum(map(len, added)))
    if added or (lengths and with_env):
        assert_same_episodes(archive, added)
        blocks = list(archive.iter_shards())
        assert all(block.num_steps < shard_steps + block.lengths.max() for block in blocks)
        assert_same_episodes([episode for block in blocks for episode in block], added)


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
    vector = gym.make_vec(env_id, num_envs=3, **options)
    with EpisodeArchive(tmp_path, env=vector) as archive:  # has the same source
        assert_same_episodes(archive, episodes)
    assert archive.observation_space == env.observation_space
    assert archive.action_space == env.action_space
    assert archive.source.env_id == env.spec.id


def test_other_programs_can_read_manifest_and_shards(tmp_path):
    env = gym.make("her_envs/BitFlipping-v0", n_bits=3)
    with EpisodeArchive(tmp_path, env=env, shard_steps=5) as archive:
        archive.add_episodes([random_episode(length, env=env) for length in (4, 3, 2)])
    content = json.loads((tmp_path / "manifest.json").read_text())
    assert content["source"]["env_id"] == "her_envs/BitFlipping-v0"
    assert content["source"]["kwargs"]["n_bits"] == 3
    assert set(content["versions"]) == {"her-toolkit", "gymnasium", "numpy"}
    with np.load(tmp_path / "shard-000001.npz", allow_pickle=False) as shard:
        assert shard["observations/achieved_goal"].shape == (3, 3)
        assert shard["infos/place%2Fx"].shape == (2, 2)


def test_arguments_that_json_cannot_store_are_stored_as_repr(tmp_path):
    env = gym.make("her_envs/PointReach-v0")
    exact = {"radius": 0.25, "name": None, "sizes": [1, {"a": 2}]}
    printed = {"pair": (1, 2), "goal": np.zeros(2), "infinite": np.inf, "keys": {1: 2}, "set": {1}}
    env.spec.kwargs.clear()
    env.spec.kwargs.update(exact | printed)
    EpisodeArchive(tmp_path, env=env).close()
    source = EpisodeArchive(tmp_path).source
    assert source.kwargs == exact
    assert source.kwargs_as_text == {name: repr(value) for name, value in printed.items()}


def test_episodes_are_copied_when_they_are_added(tmp_path):
    for name in (LOCK, f"manifest.json{PART}"):  # left by a process that was killed before its first shard
        (tmp_path / name).touch()
    episode = random_episode(3)
    with EpisodeArchive(tmp_path) as archive:
        archive(episode)
        for array in (episode.rewards, episode.observations["image"], episode.infos["is_success"]):
            array[:] = 1
        episode.reset_info["more"] = np.ones(1)
    assert_same_episodes(archive, [random_episode(3)])


def test_infos_of_different_dtypes_are_in_separate_shards_and_keep_their_order(tmp_path):
    """Integers and floats in one array would all become floats."""
    kinds = [lambda i: np.array([2**60 + i]), lambda i: np.array([i / 4]), lambda i: np.array([i % 2 == 0])]
    episodes = [random_episode(1, i, infos={"cost": kinds[i % 3](i)}) for i in range(60)]
    with EpisodeArchive(tmp_path, shard_steps=7) as archive:
        archive.add_episodes(episodes[:30])
        for episode in episodes[30:]:
            archive(episode)
    found = list(EpisodeArchive(tmp_path))
    for kind in "ifb":
        same = [
            [each for each in some if each.infos["cost"].dtype.kind == kind] for some in (found, episodes)
        ]
        assert_same_episodes(*same)
    assert len(files(tmp_path)) - 2 < 2 * 60 / 7 + 3


def test_reset_infos_of_different_dtypes_and_strings_of_all_lengths_share_a_shard(tmp_path):
    resets = [{"seed": np.array(7)}, {"seed": np.array("seven")}, {}, {"seed": np.zeros(3, np.float32)}]
    words = ["a", "longer", "mid", ""]
    with EpisodeArchive(tmp_path) as archive:
        for reset, word in zip(resets, words, strict=True):
            archive(random_episode(1, infos={"word": np.array([word])}, reset_info=reset))
    assert [episode.infos["word"].tolist() for episode in archive] == [[word] for word in words]
    for episode, reset in zip(archive, resets, strict=True):
        assert_same_tree(episode.reset_info, reset)
    assert len(list(archive.iter_shards())) == 1


def test_large_episodes_fill_a_shard_by_their_size_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_BYTES", 2000)
    with EpisodeArchive(tmp_path) as archive:
        archive.add_episodes([random_episode(5, seed) for seed in range(20)])
        assert len(files(tmp_path)) > 5


def test_episodes_are_on_disk_when_a_shard_is_full_and_after_flush(tmp_path):
    with EpisodeArchive(tmp_path, env=Nested(), shard_steps=10) as archive:
        archive(random_episode(3))
        assert len(EpisodeArchive(tmp_path)) == 0
        archive.flush()
        archive.flush()
        assert len(EpisodeArchive(tmp_path)) == 1
        archive.add_episodes([random_episode(4), random_episode(5)])
        assert len(EpisodeArchive(tmp_path)) == 1
        archive(random_episode(6))
        reader = EpisodeArchive(tmp_path)
        archive(random_episode(11))
        assert len(list(reader)) == len(reader) == 4, "a reader sees the shards of when it was opened"
        assert_same_episodes(archive, [random_episode(length) for length in (3, 4, 5, 6, 11)])


def test_a_full_disk_loses_nothing_that_was_added(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    archive = EpisodeArchive(tmp_path, shard_steps=5)
    archive(random_episode(2))
    monkeypatch.setattr(shards, "write_shard", full)
    archive(random_episode(4))
    for use in (archive.close, archive.flush, lambda: archive(random_episode(6))):
        with pytest.raises(OSError, match="No space left"):
            use()
    monkeypatch.undo()
    archive(random_episode(7))
    archive.close()
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(n) for n in (2, 4, 7)])


def test_several_threads_can_add_episodes(tmp_path):
    with EpisodeArchive(tmp_path, shard_steps=20) as archive, ThreadPoolExecutor(4) as pool:
        list(pool.map(archive, [random_episode(3, seed) for seed in range(80)]))
    assert (len(archive), len(list(EpisodeArchive(tmp_path)))) == (80, 80)


def test_only_one_archive_can_write_to_a_folder(tmp_path):
    first, second = EpisodeArchive(tmp_path), EpisodeArchive(tmp_path)
    first(random_episode(1))
    with pytest.raises(InUseError, match=str(tmp_path)):
        second(random_episode(2))
    with pytest.raises(InUseError, match=str(tmp_path)):
        EpisodeArchive(tmp_path, env=Nested())
    first.close()
    second(random_episode(2))
    second.close()
    first(random_episode(3))
    first.close()
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(n) for n in (1, 2, 3)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_process_cannot_write_and_a_program_that_ends_without_closing_loses_nothing(tmp_path):
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
try:
    EpisodeArchive({str(tmp_path)!r})(random_episode(4))
except OSError as error:
    print(type(error).__name__)
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output.count("was opened before this process was forked") == 3
    assert "InUseError" in output, "the end of the fork does not release the lock"
    assert_same_episodes(EpisodeArchive(tmp_path), [random_episode(3)])


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_of_an_archive_or_of_demonstrations_reads_the_same_folder(copy_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with EpisodeArchive("relative") as archive:
        archive.add_episodes([counting_episode(number, 3) for number in range(4)])
        twin, demonstrations = copy_of(archive), copy_of(Demonstrations(archive, 0.5))
        monkeypatch.chdir("/")
        assert_same_episodes(twin, archive)
        assert_same_episodes(demonstrations.read(), list(archive))
        assert len(EpisodeArchive(tmp_path / "relative")) == 4, "episodes in memory were written"
