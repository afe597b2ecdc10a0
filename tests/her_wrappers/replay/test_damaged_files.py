"""A damaged file, or a file that lacks a part, is an error that names the file."""

import pytest

from her_wrappers import CorruptFileError, HindsightReplayBuffer
from her_wrappers.data.arrays import ArrayFile, write_arrays
from her_wrappers.replay.saving import KIND, VERSION
from tests.support.buffers import FUNCTIONS, example


def assert_damaged(path):
    with pytest.raises(CorruptFileError, match=path.name):
        HindsightReplayBuffer.load(path, **FUNCTIONS)


def test_changed_bytes_and_a_lost_end_are_an_error(tmp_path):
    path = tmp_path / "damaged_buffer"
    example().save(path)
    content = path.read_bytes()
    changed = bytearray(content)
    changed[len(content) // 2] ^= 255
    path.write_bytes(changed)
    assert_damaged(path)
    path.write_bytes(content[: len(content) // 2])
    assert_damaged(path)


def test_a_missing_part_is_an_error(tmp_path):
    path = tmp_path / "damaged_buffer"
    example().save(path)
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        header, arrays = file.header, {name: file.read(name) for name in file.arrays}
    for part in (header, arrays):
        for name in [name for name in part if name != "demonstrations" and "observation" not in name]:
            value = part.pop(name)
            write_arrays(path, arrays, header, kind=KIND, version=VERSION)
            assert_damaged(path)
            part[name] = value
