"""Saved buffers: kills leave a whole file, and damage is never taken for data."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest

from her_wrappers import CorruptFileError, HindsightReplayBuffer, Priority
from her_wrappers.files.reading import ArrayFile
from her_wrappers.files.writing import write_arrays
from tests.counting import compute_reward, compute_terminated, counting_buffer, counting_episode
from tests.damage import damaged
from tests.her_wrappers.replay.buffers import transitions
from tests.her_wrappers.replay.saving.test_snapshot import assert_same_batches, assert_same_episodes, wrapped
from tests.killed import kills

FUNCTIONS = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}


@pytest.mark.arrays_only("what is killed is another process")
@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_while_saving_leave_the_previous_or_the_new_file_whole(tmp_path, times):
    """The program saves after every episode, and goes on from what it finds."""
    path, halves, newest = tmp_path / "buffer", 0, -1
    code = f"""
from pathlib import Path
from her_wrappers import HindsightReplayBuffer
from tests.counting import compute_reward, counting_buffer, counting_episode
path = Path({str(path)!r})
if path.exists():
    buffer = HindsightReplayBuffer.load(path, compute_reward=compute_reward)
else:
    buffer = counting_buffer(compute_terminated=None, buffer_size=20_000)
    buffer.extend(counting_episode(number, 100) for number in range(200))
    buffer.save(path)
number = int(buffer.sample(100_000).observations["observation"][:, 0].max())
print(number, flush=True)
while True:
    number += 1
    buffer.add_episode(counting_episode(number, 100))
    buffer.sample(64)
    buffer.save(path)
"""
    for _ in kills(code, times):
        halves += path.with_name("buffer.her-part").exists()
        buffer = HindsightReplayBuffer.load(path, compute_reward=compute_reward)
        buffer.verify()
        last = int(buffer.sample(20_000).index.max()) // 100
        assert_same_episodes(
            buffer.episodes(), [counting_episode(number, 100) for number in range(last - 199, last + 1)]
        )
        assert last >= newest
        newest = last
    assert newest > 200, "nothing was ever saved"
    assert halves or times == 3, "no kill came in the midst of saving"


def example():
    """A small buffer with something of everything."""
    buffer = wrapped(buffer_size=40, prioritized=Priority())
    buffer.update_priorities(np.arange(90, 100), np.arange(10.0))
    for transition in list(transitions(counting_episode(20, 3)))[:2]:
        buffer.add(*transition)
    for _ in range(4):
        buffer.sample(5)
    return buffer


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_damaged_files_are_read_as_they_were_or_refused_at_once(tmp_path, seed):
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


def test_foreign_files_are_refused_with_a_sentence(tmp_path):
    path = tmp_path / "buffer"
    for content in (b"", b"PK", b"\x80\x04cposix\nsystem\n", b"x" * 10_000):
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match="is no file of her-toolkit, or its end is missing"):
            HindsightReplayBuffer.load(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(CorruptFileError, match="is no file of her-toolkit, or its end is missing"):
        HindsightReplayBuffer.load(path.with_suffix(".npz"))
    write_arrays(path, {}, {}, kind="episodes", version=1)
    with pytest.raises(CorruptFileError, match="holds 'episodes', expected 'replay buffer'"):
        HindsightReplayBuffer.load(path)
    with pytest.raises(FileNotFoundError):
        HindsightReplayBuffer.load(tmp_path / "nothing")
    with pytest.raises(OSError, match="expected a file, got"):
        HindsightReplayBuffer.load(tmp_path)


def test_a_later_version_is_refused_with_a_sentence(tmp_path):
    write_arrays(tmp_path / "buffer", {}, {}, kind="replay buffer", version=2)
    with pytest.raises(
        CorruptFileError,
        match="has version 2 of 'replay buffer', and this her-toolkit reads up to version 1; update",
    ):
        HindsightReplayBuffer.load(tmp_path / "buffer")


def told(header, arrays):
    """What a lie of a header or of arrays leaves of the truth."""
    return {key: value for key, value in (header | arrays).items() if value is not None}


LIES = {
    "no options": ({"options": {}}, {}),
    "options a list": ({"options": []}, {}),
    "no parts": ({"parts": None}, {}),
    "a part too many": ({"parts": 2}, {}),
    "parts of words": ({"parts": "1"}, {}),
    "a space of another kind": ({"action_space": {"type": "Text"}}, {}),
    "an index of words": ({"first_index": "0"}, {}),
    "a negative index": ({"first_index": -1}, {}),
    "another generator": ({"generator": {"bit_generator": "MT19921"}}, {}),
    "no generator": ({"generator": 5}, {}),
    "learned a number": ({"learned": 5}, {}),
    "learned too little": ({"learned": {"rule": "recompute"}}, {}),
    "learned words": ({"learned": {"rule": "recompute", "values": None, "episodes_to_check": "many"}}, {}),
    "learned less than nothing": (
        {"learned": {"rule": "recompute", "values": None, "episodes_to_check": -1}},
        {},
    ),
    "a shared leaf that is none": ({"shared": [["camera"]]}, {}),
    "a shared goal": ({"shared": [["desired_goal"]]}, {}),
    "shared words": ({"shared": 5}, {}),
    "drawn ahead of nowhere": ({}, {"ahead/numbers": np.full(15, 10**6)}),
    "goals from nowhere": ({}, {"ahead/goal_index": np.full(15, 10**6)}),
    "parts that there are not": ({}, {"ahead/part": np.full(15, 7)}),
    "parts in another order": ({}, {"ahead/part": np.tile([1, 0, 0, 0, 0], 3)}),
    "too few drawn ahead": ({}, {"ahead/numbers": np.full(3, 90)}),
    "used ones too": ({}, {"ahead/numbers": np.full(20, 90)}),
    "drawn ahead in halves": ({}, {"ahead/numbers": np.full(15, 90.5)}),
    "huge batches": ({"ahead": [2**40, 2**40, 0]}, {}),
    "more used than drawn": ({"ahead": [5, 4, 7]}, {}),
    "negative batches": ({"ahead": [-5, -4, -7]}, {}),
    "priorities missing": ({}, {"priorities": None}),
    "too few priorities": ({}, {"priorities": np.ones(20)}),
    "too many priorities": ({}, {"priorities": np.ones(22)}),
    "priorities in a square": ({}, {"priorities": np.ones((21, 1))}),
    "whole priorities": ({}, {"priorities": np.ones(21, np.int64)}),
    "priorities of words": ({}, {"priorities": np.full(21, "a")}),
    "a priority of 0": ({}, {"priorities": np.zeros(21)}),
    "a negative priority": ({}, {"priorities": -np.ones(21)}),
    "a priority that is NaN": ({}, {"priorities": np.full(21, np.nan)}),
    "a priority that is infinite": ({}, {"priorities": np.full(21, np.inf)}),
    "a priority above the largest": ({}, {"priorities": np.full(21, 50.0)}),
    "a largest priority that is infinite": ({"largest_priority": "inf"}, {}),
    "a largest priority that is NaN": ({"largest_priority": "nan"}, {}),
    "a largest priority below the first": ({"largest_priority": 0.5}, {}),
    "no largest priority": ({"largest_priority": None}, {}),
    "a largest priority of words": ({"largest_priority": "large"}, {}),
    "a largest priority in a list": ({"largest_priority": [1]}, {}),
    "no open episode": ({}, {"open/rewards": None}),
    "an open episode of two": ({}, {"open/lengths": np.array([1, 1])}),
    "missing rewards": ({}, {"0/rewards": None}),
    "rewards not finite": ({}, {"0/rewards": np.full(21, np.nan)}),
    "rewards of words": ({}, {"0/rewards": np.full(21, "a")}),
    "rewards in a square": ({}, {"0/rewards": np.zeros((21, 1))}),
    "too few rewards": ({}, {"0/rewards": np.zeros(3)}),
    "lengths of none": ({}, {"0/lengths": np.zeros(4, np.int64)}),
    "huge lengths": ({}, {"0/lengths": np.full(4, 2**62)}),
    "goals that last for ever": ({}, {"0/desired_goal_lasts": np.full(5, 2**60)}),
    "goals that last for less than nothing": ({}, {"0/desired_goal_lasts": np.full(5, -1)}),
    "goals that last for no time": ({}, {"0/desired_goal_lasts": np.array([25, 0, 0, 0, 0])}),
    "goals that last for half": ({}, {"0/desired_goal_lasts": np.full(5, 0.5)}),
    "actions of another shape": ({}, {"0/actions": np.zeros((21, 2))}),
    "actions of words": ({}, {"0/actions": np.full((21, 1), "a")}),
    "observations of another shape": ({}, {"0/observations/achieved_goal": np.zeros((25, 3))}),
    "reasons of numbers": ({}, {"0/other_reason": np.zeros(4)}),
    "too few reasons": ({}, {"0/other_reason": np.zeros(3, np.bool_)}),
    "flags in a square": ({}, {"0/terminated": np.zeros((4, 1), np.bool_)}),
}


def read_buffer(path):
    """The header and the arrays of a saved buffer."""
    with ArrayFile(path, kind="replay buffer", version=1) as file:
        return file.header, file.read_all()


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_lies_is_refused_at_once(tmp_path, lie):
    path = tmp_path / "buffer"
    example().save(path)
    header, arrays = read_buffer(path)
    assert arrays["0/rewards"].shape == (21,)
    assert arrays["ahead/numbers"].shape == (15,)
    other_header, other_arrays = LIES[lie]
    assert other_arrays.keys() <= arrays.keys()
    assert other_header.keys() <= header.keys()
    write_arrays(
        path, told(arrays, other_arrays), told(header, other_header), kind="replay buffer", version=1
    )
    begin = time.thread_time()
    with pytest.raises(CorruptFileError, match=r"buffer has no array|is damaged: it holds no replay buffer"):
        HindsightReplayBuffer.load(path, **FUNCTIONS)
    assert time.thread_time() - begin < 1


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ("actions of another shape", r"array '0/actions' must have shape \(21, 1\), got \(21, 2\)"),
        ("a priority above the largest", r"priorities must be between .*, got 50\.0 at row 0"),
    ],
)
def test_what_a_file_lies_about_is_named(tmp_path, lie, message):
    path = tmp_path / "buffer"
    example().save(path)
    header, arrays = read_buffer(path)
    write_arrays(path, told(arrays, LIES[lie][1]), header, kind="replay buffer", version=1)
    with pytest.raises(CorruptFileError, match=message):
        HindsightReplayBuffer.load(path, **FUNCTIONS)


@pytest.mark.parametrize("index", [2**62 + 1, 2**63 - 9, 2**63 - 1, 2**63, 2**70])
def test_an_index_that_leaves_too_few_for_transitions_to_come_is_refused(tmp_path, index):
    """A step that is drawn ahead would tell that it is a lie; here are none."""
    path, buffer = tmp_path / "buffer", counting_buffer()
    buffer.add_episode(counting_episode(0, 5))
    buffer.save(path)
    header, arrays = read_buffer(path)
    for first_index, reads in ((2**62, contextlib.nullcontext()), (index, pytest.raises(CorruptFileError))):
        write_arrays(path, arrays, header | {"first_index": first_index}, kind="replay buffer", version=1)
        with reads:
            HindsightReplayBuffer.load(path, **FUNCTIONS).add_episode(counting_episode(1, 5))


@pytest.mark.parametrize(
    "saved", ["high", True, 0.6, {"geometric": 0.5}, {"priority": [2, 0.4, 1e-6]}, {"priority": 0.6}]
)
def test_a_file_whose_priority_is_none_is_refused(tmp_path, saved):
    path = tmp_path / "buffer"
    example().save(path)
    header, arrays = read_buffer(path)
    assert header["options"]["prioritized"] == {"priority": [0.6, 0.4, 1e-6]}
    header["options"]["prioritized"] = saved
    write_arrays(path, arrays, header, kind="replay buffer", version=1)
    with pytest.raises(CorruptFileError, match="is damaged: it holds no replay buffer"):
        HindsightReplayBuffer.load(path, **FUNCTIONS)


def test_a_file_written_by_hand_is_read(tmp_path):
    """What the lies are told of: the same header and arrays, written again, are a buffer."""
    path, buffer = tmp_path / "buffer", example()
    buffer.save(path)
    header, arrays = read_buffer(path)
    write_arrays(path, arrays, header, kind="replay buffer", version=1)
    assert_same_batches(buffer, HindsightReplayBuffer.load(path, **FUNCTIONS))


def test_memory_that_cannot_be_had_is_an_error_with_its_size(tmp_path):
    buffer = counting_buffer()
    buffer.save(tmp_path / "buffer")
    with pytest.raises(
        MemoryError, match=r"buffer_size=1000000000000000 needs \d+.\d GiB, which cannot be had"
    ):
        HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, buffer_size=10**15)
