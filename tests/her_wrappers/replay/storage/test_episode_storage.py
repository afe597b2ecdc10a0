"""Internals, `storage.py`: errors if memory runs out or was overwritten."""

from __future__ import annotations

import pytest

from her_wrappers.replay import storage
from tests.support.buffers import filled
from tests.support.counting import counting_buffer


@pytest.mark.arrays_only("memory of arrays is limited; test_unusable_devices.py tests tensors")
def test_missing_memory_is_an_error_with_its_size(monkeypatch):
    def no_memory(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(storage, "ByteRing", no_memory)
    with pytest.raises(
        MemoryError, match=r"buffer_size=1000000 needs 0\.\d GiB, and there is not enough memory"
    ):
        counting_buffer()


def test_verify_finds_memory_that_was_overwritten():
    for field, by in (("length", 1), ("length", -1), ("first_step", 2), ("episode", 1), ("end", 1)):
        buffer = filled()
        buffer.verify()
        buffer._storage.memory.index.segments.records(slice(None))[field][1] += by
        with pytest.raises(RuntimeError, match=r"the buffer is corrupted: the .* of its episodes disagree"):
            buffer.verify()
    for step, segment in ((3, 2), (0, 1), (11, 63)):
        buffer = filled()
        buffer._storage.memory.index.segment_slots.records(slice(None))[step] = segment
        with pytest.raises(RuntimeError, match=r"the buffer is corrupted: the .* of its episodes disagree"):
            buffer.verify()
    counting_buffer().verify()
