"""Saved buffers: a kill leaves a complete file, and damaged files are errors."""

from __future__ import annotations

import time

import numpy as np
import pytest

from her_wrappers import CorruptFileError, HindsightReplayBuffer
from her_wrappers.files.writing import write_arrays
from tests.support.buffers import example
from tests.support.counting import compute_reward, compute_terminated, counting_buffer
from tests.support.damage import damaged
from tests.support.equality import assert_same_batches, assert_same_episodes
from tests.support.kill_trials import kill_while_saving

FUNCTIONS = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}


@pytest.mark.arrays_only("another process is killed")
@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.campaign)])
def test_a_kill_while_saving_leaves_the_previous_or_the_new_file(tmp_path, times):
    unfinished, newest = kill_while_saving(tmp_path, times)
    assert newest > 200, "nothing was ever saved"
    assert unfinished or times == 3, "no kill came while a file was written"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
def test_a_damaged_file_is_read_exactly_or_is_an_error(tmp_path, seed):
    buffer, path, refused = example(), tmp_path / "buffer", 0
    buffer.save(path)
    content = path.read_bytes()
    for variant in damaged(content, 2000 if seed == 0 else 20_000, seed):
        path.write_bytes(variant)
        begin = time.thread_time()
        try:
            twin = HindsightReplayBuffer.load(path, **FUNCTIONS)
        except CorruptFileError:
            refused += 1
        else:
            assert_same_episodes(twin.episodes(), buffer.episodes())
        assert time.thread_time() - begin < 1
    assert refused > 1500
    path.write_bytes(content)
    assert_same_batches(buffer, HindsightReplayBuffer.load(path, **FUNCTIONS))


def test_files_of_other_formats_give_a_clear_error(tmp_path):
    path = tmp_path / "buffer"
    for content in (b"", b"PK", b"\x80\x04cposix\nsystem\n", b"x" * 10_000):
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match="is not a file of her-toolkit, or its end is missing"):
            HindsightReplayBuffer.load(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(CorruptFileError, match="is not a file of her-toolkit, or its end is missing"):
        HindsightReplayBuffer.load(path.with_suffix(".npz"))
    write_arrays(path, {}, {}, kind="episodes", version=1)
    with pytest.raises(CorruptFileError, match="must be a file of kind 'replay buffer', got 'episodes'"):
        HindsightReplayBuffer.load(path)
    with pytest.raises(FileNotFoundError):
        HindsightReplayBuffer.load(tmp_path / "nothing")
    with pytest.raises(OSError, match="must be a regular file, got a folder"):
        HindsightReplayBuffer.load(tmp_path)


def test_missing_memory_is_an_error_with_its_size(tmp_path):
    buffer = counting_buffer()
    buffer.save(tmp_path / "buffer")
    with pytest.raises(
        MemoryError, match=r"buffer_size=1000000000000000 needs \d+.\d GiB, and there is not enough memory"
    ):
        HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, buffer_size=10**15)
