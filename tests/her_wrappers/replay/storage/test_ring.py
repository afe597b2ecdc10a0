"""ByteRing and TensorRing: rows keep their serial numbers when rows are added and rings resized."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers.replay.byte_rows import ByteRing
from her_wrappers.replay.torch_records import TensorRing
from tests.support.buffers import plain_buffer
from tests.support.counting import counting_episode

pytestmark = pytest.mark.arrays_only("the tests use no buffer, or a buffer of each backend")

ROW = np.dtype([("value", np.int64), ("low", np.int8), ("high", np.float64, 2)], align=True)


def rows_of(serials):
    """Return a row for each serial number, whose values depend on that number."""
    rows = np.zeros(len(serials), ROW)
    rows["value"] = 10 * np.asarray(serials)
    rows["low"] = np.asarray(serials) % 100
    rows["high"] = np.asarray(serials)[:, None]
    return rows


def new_rings(capacity):
    return ByteRing(capacity, ROW), TensorRing(capacity, ROW, torch.device("cpu"))


@given(
    st.integers(1, 9),
    st.integers(0, 2**40),
    st.lists(st.tuples(st.sampled_from(["add", "evict", "grow"]), st.integers(0, 9))),
)
def test_rows_keep_their_serial_numbers(capacity, first, actions):
    rings, end = new_rings(capacity), first
    for action, wanted in actions:
        if action == "add":
            serials = np.arange(end, end + min(wanted, rings[0].capacity - (end - first)))
            for ring in rings:
                ring.write(end, rows_of(serials))
            end += len(serials)
        elif action == "evict":
            first += min(wanted, end - first)
        else:
            rings = [ring.resized(first, end, ring.capacity + wanted) for ring in rings]
        expected = rows_of(np.arange(first, end))
        for ring in rings:
            np.testing.assert_array_equal(ring.take_range(first, end), expected)
        origin = end - end % rings[0].capacity
        np.testing.assert_array_equal(rings[0].take(np.arange(first, end) - origin), expected)


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_rows_that_wrap_around_are_read_from_every_slot(capacity):
    for start in range(capacity):
        for count in range(1, capacity + 1):
            for ring in new_rings(capacity):
                serials = np.arange(start, start + count)
                ring.write(start, rows_of(serials))
                np.testing.assert_array_equal(ring.take_range(start, start + count), rows_of(serials))


def test_converting_records_keeps_the_values_of_their_fields():
    wider = np.dtype([("new", np.int64), *((name, ROW[name]) for name in ROW.names)], align=True)
    for ring in new_rings(4):
        ring.write(3, rows_of(np.arange(3, 7)))
        converted = ring.converted(3, 7, wider, {"new": "value"})
        rows = converted.take_range(3, 7)
        assert rows["value"].tolist() == rows["new"].tolist() == [30, 40, 50, 60]
        assert rows["high"][:, 1].tolist() == [3, 4, 5, 6]
        np.testing.assert_array_equal(ring.take_range(3, 7), rows_of(np.arange(3, 7)))


def test_taken_records_are_copies():
    ring = ByteRing(2, ROW)
    ring.write(0, rows_of(np.arange(2)))
    ring.take(np.arange(2))["value"][:] = 7
    assert ring.take(np.arange(2))["value"].tolist() == [0, 10]


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_a_copy_of_a_buffer_shares_no_memory_with_it(device, copied):
    buffer = plain_buffer(60, device=device)
    for number in range(9):
        buffer.add_episode(counting_episode(number, 7))
        twin = copied(buffer)
        twin.verify()
        for each, other in ((twin, 100), (buffer, 200)):
            each.add_episode(counting_episode(other + number, 3))
        numbers = [int(episode.actions[0, 0]) for episode in twin.episodes()]
        assert numbers[-2:] == [number, 100 + number]
        assert twin.nbytes == buffer.nbytes


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_pickle_has_stored_rows_only(device):
    """Pickles of an empty and of a cleared buffer are small, unlike the memory of the buffer."""
    empty = plain_buffer(100_000, device=device)
    assert len(pickle.dumps(empty)) < 10_000 < empty.nbytes
    for number in range(2000):
        empty.add_episode(counting_episode(number, 50))
    full = len(pickle.dumps(empty))
    empty.clear()
    assert len(pickle.dumps(empty)) < 10_000 < full
