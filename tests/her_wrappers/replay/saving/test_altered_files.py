"""Internals, the file format: intact files with a wrong header or wrong arrays raise CorruptFileError."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from her_wrappers import CorruptFileError, HindsightReplayBuffer
from her_wrappers.files.reading import ArrayFile
from her_wrappers.files.writing import write_arrays
from tests.support.buffers import FUNCTIONS, example
from tests.support.counting import counting_buffer, counting_episode
from tests.support.equality import assert_same_batches


def test_a_file_of_a_later_version_gives_a_clear_error(tmp_path):
    write_arrays(tmp_path / "buffer", {}, {}, kind="replay buffer", version=3)
    with pytest.raises(
        CorruptFileError,
        match="has version 3 of 'replay buffer', and this her-toolkit reads up to version 2; update",
    ):
        HindsightReplayBuffer.load(tmp_path / "buffer")


def altered(entries, changes):
    """Return a header or arrays with some entries replaced; a change to None removes the entry."""
    return {key: value for key, value in (entries | changes).items() if value is not None}


def prefetch(**altered):
    """Return the prefetch state of the example buffer with some values replaced."""
    generator = np.random.default_rng(0).bit_generator.state
    return {"generator": generator, "batch_size": 5, "batches": 4, "used": 1} | altered


ALTERATIONS = {
    "no options": ({"options": {}}, {}),
    "options a list": ({"options": []}, {}),
    "no blocks": ({"blocks": None}, {}),
    "a block too many": ({"blocks": 2}, {}),
    "blocks of words": ({"blocks": "1"}, {}),
    "a space of another kind": ({"action_space": {"type": "Text"}}, {}),
    "an index of words": ({"first_index": "0"}, {}),
    "a negative index": ({"first_index": -1}, {}),
    "another generator": ({"generator": {"bit_generator": "MT19921"}}, {}),
    "no generator": ({"generator": 5}, {}),
    "a relabeler of a number": ({"relabeler": 5}, {}),
    "too little of a relabeler": ({"relabeler": {"rule": "recompute"}}, {}),
    "a relabeler of words": (
        {"relabeler": {"rule": "recompute", "values": None, "episodes_to_check": "many"}},
        {},
    ),
    "a relabeler with less than nothing to check": (
        {"relabeler": {"rule": "recompute", "values": None, "episodes_to_check": -1}},
        {},
    ),
    "a deduplicated leaf that there is not": ({"deduplicated": [["camera"]]}, {}),
    "a deduplicated goal": ({"deduplicated": [["desired_goal"]]}, {}),
    "a number of deduplicated leaves": ({"deduplicated": 5}, {}),
    "a prefetch of a number": ({"prefetch": 5}, {}),
    "a prefetch without a generator": ({"prefetch": prefetch(generator=None)}, {}),
    "a prefetch by another generator": ({"prefetch": prefetch(generator={"bit_generator": "MT19921"})}, {}),
    "a prefetch of too little": ({"prefetch": {"batches": 4}}, {}),
    "a prefetch of huge batches": ({"prefetch": prefetch(batch_size=2**40)}, {}),
    "a prefetch of too many batches": ({"prefetch": prefetch(batches=2**40)}, {}),
    "more used than prefetched": ({"prefetch": prefetch(used=5)}, {}),
    "negative batches": ({"prefetch": prefetch(batch_size=-5)}, {}),
    "batches of words": ({"prefetch": prefetch(batches="4")}, {}),
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
    """Return the header and the arrays of a saved buffer."""
    with ArrayFile(path, kind="replay buffer", version=2) as file:
        return file.header, file.read_all()


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_a_file_with_altered_content_is_an_error(tmp_path, alteration):
    path = tmp_path / "buffer"
    example().save(path)
    header, arrays = read_buffer(path)
    assert arrays["0/rewards"].shape == (21,)
    assert header["prefetch"].keys() == prefetch().keys()
    other_header, other_arrays = ALTERATIONS[alteration]
    assert other_arrays.keys() <= arrays.keys()
    assert other_header.keys() <= header.keys()
    write_arrays(
        path, altered(arrays, other_arrays), altered(header, other_header), kind="replay buffer", version=2
    )
    with pytest.raises(
        CorruptFileError, match=r"buffer has no array|is damaged: its content is not a replay buffer"
    ):
        HindsightReplayBuffer.load(path, **FUNCTIONS)


@pytest.mark.parametrize(
    ("alteration", "message"),
    [
        ("actions of another shape", r"array '0/actions' must have shape \(21, 1\), got \(21, 2\)"),
        ("a priority above the largest", r"priorities must be between .*, got 50\.0 at row 0"),
    ],
)
def test_the_error_for_an_altered_file_names_the_value(tmp_path, alteration, message):
    path = tmp_path / "buffer"
    example().save(path)
    header, arrays = read_buffer(path)
    write_arrays(path, altered(arrays, ALTERATIONS[alteration][1]), header, kind="replay buffer", version=2)
    with pytest.raises(CorruptFileError, match=message):
        HindsightReplayBuffer.load(path, **FUNCTIONS)


@pytest.mark.parametrize("index", [2**62 + 1, 2**63 - 9, 2**63 - 1, 2**63, 2**70])
def test_a_first_index_near_the_limit_of_int64_is_an_error(tmp_path, index):
    path, buffer = tmp_path / "buffer", counting_buffer()
    buffer.add_episode(counting_episode(0, 5))
    buffer.save(path)
    header, arrays = read_buffer(path)
    for first_index, reads in ((2**62, contextlib.nullcontext()), (index, pytest.raises(CorruptFileError))):
        write_arrays(path, arrays, header | {"first_index": first_index}, kind="replay buffer", version=2)
        with reads:
            HindsightReplayBuffer.load(path, **FUNCTIONS).add_episode(counting_episode(1, 5))


@pytest.mark.parametrize(
    "saved", ["high", True, 0.6, {"geometric": 0.5}, {"priority": [2, 0.4, 1e-6]}, {"priority": 0.6}]
)
def test_a_file_with_an_invalid_priority_is_an_error(tmp_path, saved):
    path = tmp_path / "buffer"
    example().save(path)
    header, arrays = read_buffer(path)
    assert header["options"]["prioritized"] == {"priority": [0.6, 0.4, 1e-6]}
    header["options"]["prioritized"] = saved
    write_arrays(path, arrays, header, kind="replay buffer", version=2)
    with pytest.raises(CorruptFileError, match="is damaged: its content is not a replay buffer"):
        HindsightReplayBuffer.load(path, **FUNCTIONS)


@pytest.mark.parametrize("functions", [FUNCTIONS, {}], ids=["functions", "no functions"])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("buffer_size", 2),
        ("buffer_size", 10**400),
        ("n_sampled_goal", -1),
        ("n_sampled_goal", 1.5),
        ("n_sampled_goal", {"function": "f"}),
        ("her_ratio", 2),
        ("her_ratio", "half"),
        ("goal_selection_strategy", None),
        ("goal_selection_strategy", "futur"),
        ("goal_selection_strategy", {"mixture": [["futur", 1.0]]}),
        ("goal_selection_strategy", {"mixture": [["future", 0.5]]}),
        ("goal_selection_strategy", {"geometric": 2}),
        ("goal_selection_strategy", {"strategy": "futur"}),
        ("termination", "recomputed"),
        ("termination", ["keep"]),
        ("termination", {"priority": [0.5]}),
        ("n_steps", 0),
        ("gamma", 2),
        ("resample_achieved_goals", 1),
        ("info_keys", "cost"),
        ("info_format", "rows"),
        ("color", "red"),
    ],
)
def test_an_option_with_a_wrong_value_in_a_file_is_an_error(tmp_path, option, value, functions):
    path = tmp_path / "buffer"
    example().save(path)
    header, arrays = read_buffer(path)
    header["options"][option] = value
    write_arrays(path, arrays, header, kind="replay buffer", version=2)
    with pytest.raises(CorruptFileError, match="is damaged: its content is not a replay buffer"):
        HindsightReplayBuffer.load(path, **functions)


def test_a_file_written_by_hand_is_read(tmp_path):
    """The unaltered header and arrays can be loaded."""
    path, buffer = tmp_path / "buffer", example()
    buffer.save(path)
    header, arrays = read_buffer(path)
    write_arrays(path, arrays, header, kind="replay buffer", version=2)
    assert_same_batches(buffer, HindsightReplayBuffer.load(path, **FUNCTIONS))
