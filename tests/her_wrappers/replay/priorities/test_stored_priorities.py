"""Internals, `prioritized.py`: stored priorities equal those of a reference dict."""

from __future__ import annotations

import copy
import re
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from her_wrappers import HindsightReplayBuffer, Priority
from her_wrappers.replay.sum_tree import SumTree
from tests.support.buffers import FUNCTIONS
from tests.support.counting import counting_episode
from tests.support.equality import assert_same_batches
from tests.support.prioritized import assert_proportional, count_samples, prioritized_buffer
from tests.support.replay_reference import PriorityReference


def assert_agree(buffer, oracle):
    """Assert that the buffer has the priorities of the reference, and that a batch has its weights."""
    buffer.verify()
    saved = buffer._priorities.saved()
    odds = oracle.odds()
    assert len(buffer) == len(odds)
    assert saved.largest == oracle.largest
    np.testing.assert_allclose(saved.scaled, [odds[number] for number in sorted(odds)], rtol=1e-14)
    if odds:
        oracle.explain(buffer.sample(20))


POSITIVE = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-12, 1e-3, 1.0, 7.0, 1e12, 3e38]))


ACTIONS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(1, 30), min_size=1, max_size=3)),
    st.tuples(
        st.just("update"), st.lists(st.tuples(st.floats(0, 1, exclude_max=True), POSITIVE), max_size=8)
    ),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("save and load"), st.sampled_from([0, 5, 60])),
)


@settings(max_examples=60)  # few, since files are written
@given(
    st.builds(
        Priority,
        alpha=st.sampled_from([0.0, 0.3, 0.6, 1.0]),
        beta=st.sampled_from([0.0, 0.4, 1.0]),
        eps=st.sampled_from([1e-6, 1e-30, 1.0]),
    ),
    st.integers(30, 70),
    st.lists(ACTIONS, max_size=15),
)
def test_priorities_equal_a_reference_dict_after_any_sequence_of_calls(
    tmp_path_factory, priority, buffer_size, actions
):
    """Episodes are added, evicted, updated, cleared, saved and loaded in any order."""
    path = tmp_path_factory.getbasetemp() / "buffer"
    buffer = prioritized_buffer(priority=priority, buffer_size=buffer_size)
    oracle = PriorityReference(buffer_size, priority)
    for what, value in actions:
        if what == "add":
            for length in value:
                buffer.add_episode(counting_episode(0, length))
                oracle.add(length)
        elif what == "update" and oracle.end:
            index = [int(fraction * oracle.end) for fraction, _ in value]
            priorities = [priority for _, priority in value]
            assert buffer.update_priorities(index, priorities) == oracle.update(index, priorities)
        elif what == "clear":
            buffer.clear()
            oracle.clear()
        elif what == "save and load":
            oracle.shrink(max(30, oracle.buffer_size - value))
            buffer.save(path)
            buffer = HindsightReplayBuffer.load(path, **FUNCTIONS, buffer_size=oracle.buffer_size)
        assert_agree(buffer, oracle)


def test_a_large_wrapped_buffer_samples_in_proportion_to_priorities():
    """A tree of 70,000 transitions has three levels; the reference is an array indexed by serial number."""
    buffer, rng = (
        prioritized_buffer(buffer_size=70_000, priority=Priority(alpha=0.5, eps=1e-3)),
        np.random.default_rng(0),
    )
    expected, largest = np.zeros(0), 1.0
    for lap in range(12):
        lengths = rng.integers(1, 900, 60)
        buffer.add_episodes([counting_episode(number, length) for number, length in enumerate(lengths)])
        expected = np.append(expected, np.full(lengths.sum(), largest))
        for _ in range(10):
            index = rng.integers(0, len(expected), 2000)
            index, priorities = np.unique(index), rng.exponential(size=len(np.unique(index))) * (1 + lap)
            oldest = len(expected) - len(buffer)
            assert buffer.update_priorities(index, priorities) == (index < oldest).sum()
            expected[index] = priorities
            largest = max(largest, priorities[index >= oldest].max(initial=0))
        buffer.verify()
        odds = (expected[oldest:] + 1e-3) ** 0.5
        np.testing.assert_allclose(buffer._priorities.saved().scaled, odds, rtol=1e-14)
    tenths = np.argsort(np.argsort(odds)) * 10 // len(odds)
    found = Counter(tenths[buffer.sample(60_000).index - oldest].tolist())
    assert_proportional(found, {tenth: odds[tenths == tenth].sum() for tenth in range(10)})


def test_memory_that_is_missing_while_priorities_follow_is_an_error_once():
    buffer = prioritized_buffer([30, 60])
    twin = copy.deepcopy(buffer)

    def refuse(*_):
        raise MemoryError

    for each in (buffer, twin):
        each.add_episode(counting_episode(2, 50))
    for name in ("set_range", "find"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SumTree, name, refuse)
            with pytest.raises(MemoryError):
                buffer.sample(8)
    buffer.verify()
    assert set(buffer.sample(1000).index) == set(twin.sample(1000).index)


def test_an_evicted_transition_does_not_raise_the_priority_of_new_ones():
    buffer = prioritized_buffer([60, 60])
    assert buffer.update_priorities([0, 70], [1e9, 2.0]) == 1
    assert buffer._priorities.saved().largest == 2


def test_clear_resets_all_priorities():
    buffer = prioritized_buffer([20, 20], priority=Priority(alpha=1))
    buffer.update_priorities([3, 4], [100.0, 1e6])
    buffer.clear()
    buffer.verify()
    assert not buffer.can_sample
    buffer.add_episode(counting_episode(0, 10))
    assert buffer.update_priorities([3, 4], [5.0, 5.0]) == 2
    assert_proportional(count_samples(buffer), dict.fromkeys(range(40, 50), 1.0))
    assert buffer._priorities.saved().largest == 1


def test_verify_finds_priorities_that_are_not_those_of_the_steps():
    buffer = prioritized_buffer([20, 20])
    buffer.verify()
    buffer._priorities._tree.set_range(50, 51, 1.0)
    with pytest.raises(RuntimeError, match="a stored step has no priority"):
        buffer.verify()


@pytest.mark.parametrize(
    ("index", "priorities"),
    [
        ([0, 2], [0.5, 4]),
        ((0, 2), (np.float32(0.5), 4)),
        (np.array([0, 2], np.uint8), np.array([0.5, 4], np.float16)),
        (torch.tensor([0, 2]), torch.tensor([0.5, 4.0], requires_grad=True)),
        (torch.tensor([0, 2], dtype=torch.int32), torch.tensor([0.5, 4.0], dtype=torch.bfloat16)),
    ],
)
def test_arrays_tensors_and_lists_are_taken(index, priorities):
    buffer = prioritized_buffer([4], priority=Priority(alpha=1, eps=1e-30))
    assert buffer.update_priorities(index, priorities) == 0
    assert buffer._priorities.saved().scaled.tolist() == [0.5, 1, 4, 1]


WHOLE = "index must be whole numbers of shape (B,), as batch.index, got "


BAD_UPDATES = [
    ([0, 1], [1, -0.5], "priorities must be >= 0, as np.abs(td_errors) is, got -0.5 at row 1"),
    ([0, 1], [np.nan, 1], "priorities must be finite as float32, got nan at row 0"),
    ([0, 1], [1, np.inf], "priorities must be finite as float32, got inf at row 1"),
    ([0, 1], [1e39, 1], "priorities must be finite as float32, got 1e+39 at row 0"),
    ([0, 1], ["a", "b"], "priorities must be real numbers, got <U1 of shape (2,)"),
    ([0, 1], [True, False], "priorities must be real numbers, got bool of shape (2,)"),
    ([0, 1], [[1], [1, 2]], "priorities must be real numbers, got object of shape ()"),
    ([0, 1], [1], "priorities must have the shape of index, (2,), got (1,)"),
    ([0, 1], [[1], [1]], "priorities must have the shape of index, (2,), got (2, 1)"),
    ([0, 1], 1.0, "priorities must have the shape of index, (2,), got ()"),
    ([], [1], "priorities must have the shape of index, (0,), got (1,)"),
    ([0, 24], [1, 1], "index must be numbers that this buffer has given, as batch.index, got 24 at row 1"),
    ([-1, 0], [1, 1], "index must be numbers that this buffer has given, as batch.index, got -1 at row 0"),
    (
        np.array([2**63 + 5, 0], np.uint64), [1, 1],
        "index must be numbers that this buffer has given, as batch.index, got 9223372036854775813 at row 0",
    ),
    ([0.0, 1], [1, 1], WHOLE + "float64 of shape (2,)"),
    ([True, False], [1, 1], WHOLE + "bool of shape (2,)"),
    ([[0], [1]], [1, 1], WHOLE + "int64 of shape (2, 1)"),
    (0, 1.0, WHOLE + "int64 of shape ()"),
    (None, None, WHOLE + "object of shape ()"),
]  # fmt: skip


@pytest.mark.parametrize(("index", "priorities", "message"), BAD_UPDATES)
def test_a_bad_update_is_an_error_at_once_and_changes_nothing(index, priorities, message):
    buffer = prioritized_buffer([12, 12])
    buffer.update_priorities([1, 20], [9, 0.1])
    for _ in range(3):
        buffer.sample(8)
    twin = copy.deepcopy(buffer)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        buffer.update_priorities(index, priorities)
    buffer.verify()
    assert buffer._priorities.saved().largest == 9
    assert_same_batches(buffer, twin, [8] * 10)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, Fraction, int])
def test_options_of_a_priority_are_converted_to_float64(tmp_path, kind):
    """With shorter floats, new priorities could be infinite or differ from updated ones."""
    priority = Priority(alpha=kind(1), beta=kind(1), eps=kind(1))
    assert {type(value) for value in (priority.alpha, priority.beta, priority.eps)} == {float}
    buffer = prioritized_buffer([4], priority=priority)
    buffer.update_priorities([0], [1e30 / 3])
    buffer.add_episode(counting_episode(1, 1))
    assert buffer._priorities.saved().scaled.tolist() == [1e30 / 3, 2, 2, 2, 1e30 / 3]
    buffer.save(tmp_path / "buffer")
    assert_same_batches(buffer, HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS))


def test_another_beta_keeps_priorities_and_another_alpha_begins_anew(tmp_path):
    buffer = prioritized_buffer([9, 30])
    buffer.update_priorities([0, 5], [3.0, 7.0])
    buffer.save(tmp_path / "buffer")
    for priority, largest in [(Priority(beta=1), 7), (Priority(alpha=0.5), 1), (Priority(eps=0.1), 1)]:
        twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, prioritized=priority)
        twin.verify()
        saved = twin._priorities.saved()
        assert saved.largest == largest
        assert (len(set(saved.scaled)) == 1) == (largest == 1)
        twin.sample(10)
    plain = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, prioritized=None)
    assert plain.sample(10).weights.tolist() == [1] * 10
    plain.save(tmp_path / "buffer")
    again = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, prioritized=Priority())
    again.verify()
    assert set(again.sample(500).index) == set(range(39))


def test_transitions_that_stay_in_a_smaller_buffer_keep_their_priorities(tmp_path):
    buffer = prioritized_buffer([30, 30, 30], priority=Priority(alpha=1, eps=1e-30))
    buffer.update_priorities(np.arange(90), np.arange(90.0))
    buffer.save(tmp_path / "buffer")
    for buffer_size, first in ((89, 30), (60, 30), (59, 60), (1000, 0)):
        twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS, buffer_size=buffer_size)
        twin.verify()
        np.testing.assert_allclose(twin._priorities.saved().scaled, np.arange(first, 90), rtol=0, atol=1e-29)
        assert twin.update_priorities([0, 89], [1, 1]) == (first > 0)
        assert_proportional(
            count_samples(twin),
            dict(enumerate([*range(first, 89), 1], start=first)) | ({0: 1} if first == 0 else {}),
        )
