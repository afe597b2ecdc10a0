"""Ring against a list: whatever is added, dropped and grown, the queue is the same."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers.replay.devices.device_ring import DeviceRing
from her_wrappers.replay.storage.ring import Ring

pytestmark = pytest.mark.arrays_only("no buffer is in it")

ROW = np.dtype([("value", np.int64), ("pair", np.dtype([("low", np.int8), ("high", np.float64, 2)]))])


def rows_of(numbers):
    """A row for each number, in which every value tells it."""
    rows = np.zeros(len(numbers), ROW)
    rows["value"] = 10 * numbers
    rows["pair"]["low"] = numbers % 100
    rows["pair"]["high"] = numbers[:, None]
    return rows


@given(
    st.integers(1, 9),
    st.integers(0, 2**40),
    st.lists(st.tuples(st.sampled_from(["append", "drop", "grow"]), st.integers(0, 9))),
)
def test_a_ring_is_a_queue_whose_rows_keep_their_numbers(capacity, first, steps):
    ring, expected = Ring(capacity, first, number=np.int64, row=ROW), []
    for what, wanted in steps:
        if what == "append":
            numbers = np.arange(ring.end, ring.end + min(wanted, ring.capacity - len(ring)))
            ring.append(number=numbers, row=rows_of(numbers))
            expected += numbers.tolist()
        elif what == "drop":
            ring.drop_before(ring.first + min(wanted, len(ring)))
            expected = [number for number in expected if number >= ring.first]
        else:
            ring.grow(ring.capacity + wanted)

        assert len(ring) == len(expected)
        numbers = np.arange(ring.first, ring.end)
        assert numbers.tolist() == expected
        assert ring.take_range("number", ring.first, ring.end).tolist() == expected
        np.testing.assert_array_equal(ring.take("row", ring.positions(numbers)), rows_of(numbers))
        np.testing.assert_array_equal(ring.take("row", ring.places(numbers)), rows_of(numbers))
        np.testing.assert_array_equal(ring.numbers(ring.places(numbers)), numbers)
        np.testing.assert_array_equal(ring.numbers(ring.places(numbers).astype(np.int8)), numbers)
        if len(numbers):
            in_a_row = ring.positions(numbers[:1]) + np.arange(len(numbers))
            starts = ring.take_starts("row", 8, in_a_row[::-1])
            np.testing.assert_array_equal(starts.view(np.int64), 10 * numbers[::-1])


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_rows_that_go_around_the_end_come_back_from_every_place(capacity):
    for start in range(capacity):
        for count in range(1, capacity + 1):
            ring = Ring(capacity, start, number=np.int64, row=ROW)
            numbers = np.arange(start, start + count)
            ring.append(number=numbers, row=rows_of(numbers))
            np.testing.assert_array_equal(ring.take_range("row", start, start + count), rows_of(numbers))
            np.testing.assert_array_equal(ring.column("number")[numbers % capacity], numbers)


def test_widening_a_column_keeps_its_rows_in_place():
    ring = Ring(4, row=ROW)
    for count in (3, 3):
        ring.append(row=rows_of(np.arange(ring.end, ring.end + count)))
        ring.drop_before(ring.end - 2)
    ring.widen_column("row", [("new", np.int8), *((name, ROW[name]) for name in ROW.names)])
    assert ring.take_range("row", 4, 6)["value"].tolist() == [40, 50]


@pytest.mark.parametrize("enough_for", [0, 1])
def test_a_ring_that_runs_out_of_memory_while_it_grows_is_as_it_was(enough_for):
    """Also when there was enough for the first of its two columns."""
    ring = Ring(4, number=np.int64, row=ROW)
    for number in range(6):  # around the end
        ring.drop_before(max(0, number - 2))
        ring.append(number=np.array([number]), row=rows_of(np.array([number])))
    before, memory = ring.nbytes, [np.empty(7, np.dtype((np.void, 8)))] * enough_for

    def last_memory(*_):
        if not memory:
            raise MemoryError
        return memory.pop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "empty", last_memory)
        with pytest.raises(MemoryError):
            ring.grow(7)
    assert (ring.nbytes, ring.capacity) == (before, 4)
    assert ring.take_range("number", 3, 6).tolist() == [3, 4, 5]
    np.testing.assert_array_equal(ring.take_range("row", 3, 6), rows_of(np.arange(3, 6)))


@pytest.mark.parametrize(
    "take",
    [
        lambda ring: ring.take("row", np.arange(2))["value"],
        lambda ring: ring.take_starts("row", 8, np.arange(2)).view(np.int64),
    ],
)
def test_a_take_is_a_copy(take):
    ring = Ring(2, row=ROW)
    ring.append(row=rows_of(np.arange(2)))
    take(ring)[:] = 7
    assert take(ring).tolist() == [0, 10]


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def ring_there(capacity, first=0):
    """A ring whose records are tensors, and whose numbers are an array."""
    return DeviceRing(torch.device("cpu"), capacity, first, segment=np.int64, record=ROW)


def ring_here(capacity, first=0):
    return Ring(capacity, first, segment=np.int64, record=ROW)


def values_of(ring):
    numbers = np.arange(ring.first, ring.end)
    records = ring.column("record")
    records = records if isinstance(records, np.ndarray) else records.to_numpy()
    return ring.take_range("segment", ring.first, ring.end), records[numbers % ring.capacity]


@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("new_ring", [ring_here, ring_there])
@given(st.integers(1, 7), st.lists(st.integers(0, 20), min_size=3, max_size=3))
def test_a_copy_of_a_ring_has_its_rows_in_memory_of_its_own(new_ring, made, capacity, counts):
    first, total, stay = counts
    ring = new_ring(capacity, first)
    for number in range(first, first + total):
        ring.drop_before(max(ring.first, number + 1 - capacity))
        ring.append(segment=np.array([number]), record=rows_of(np.array([number])))
    ring.drop_before(max(ring.first, ring.end - stay))
    twin = made(ring)
    assert (twin.first, twin.end, twin.capacity, twin.nbytes) == (
        ring.first,
        ring.end,
        ring.capacity,
        ring.nbytes,
    )
    room = np.arange(ring.end, ring.first + capacity)
    twin.append(segment=room, record=rows_of(room))
    ring.append(segment=-room, record=rows_of(-room))
    numbers = np.arange(twin.first, twin.end)
    for values, expected in zip(values_of(twin), (numbers, rows_of(numbers)), strict=True):
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("new_ring", [ring_here, ring_there])
def test_a_pickle_of_a_ring_holds_no_room_for_rows_to_come(new_ring):
    """Neither what was never written nor what was there before."""
    ring, numbers = new_ring(100_000), np.arange(100_000)
    ring.append(segment=numbers, record=rows_of(numbers))
    full = len(pickle.dumps(ring))
    ring.drop_before(99_990)
    ring.append(segment=numbers[:10], record=rows_of(numbers[:10]))  # so that they go around the end
    assert len(pickle.dumps(ring)) < 4000 < ring.nbytes <= full
    assert values_of(pickled(ring))[0].tolist() == [*range(99_990, 100_000), *range(10)]
