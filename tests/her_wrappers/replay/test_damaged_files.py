"""Hostile and foreign files are an error, or give a buffer that can be used.

The contents of files are altered through `ArrayFile` and `write_arrays`, without knowledge of the format.
"""

import contextlib
import copy
import functools
import operator

import numpy as np
import pytest

from her_wrappers import CorruptFileError, HindsightReplayBuffer
from her_wrappers.data.arrays import ArrayFile, write_arrays
from her_wrappers.replay.saving import KIND, VERSION
from tests.support.buffers import FUNCTIONS, example


def files_of(path):
    """Return the header and the arrays of a saved buffer, and a function that writes them."""
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        header, arrays = file.header, {name: file.read(name) for name in file.arrays}

    def write(header, arrays):
        write_arrays(path, arrays, header, kind=KIND, version=VERSION)

    return header, arrays, write


HOSTILE = None, True, -1, 2**62, 10**400, 0.5, float("nan"), "0", "", [], [1], {}, {"a": 1}, [[-1]]
MISSING = object()


def places_of(json, path=()):
    """Yield the path of each value in a JSON object."""
    for key, value in json.items() if isinstance(json, dict) else enumerate(json):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places_of(value, (*path, key))


WRONG = (["functions"], ["nothing"]), (["first"], 2**62 + 1), (["sampler", "used"], 10**6)
"""Valid JSON that is not a valid state."""


def variants(header):
    """Yield copies of a header, each without one of its values, or with a hostile one."""
    rng = np.random.default_rng(0)
    places = [list(place) for place in places_of(header)]
    values = (MISSING, *HOSTILE)
    for (*path, key), value in (*WRONG, *((place, values[rng.integers(len(values))]) for place in places)):
        changed = copy.deepcopy(header)
        parent = functools.reduce(operator.getitem, path, changed)
        if value is MISSING:
            del parent[key]
        else:
            parent[key] = value
        yield changed


def test_hostile_values_in_a_header_are_an_error_or_harmless(tmp_path):
    buffer, path = example(), tmp_path / "buffer"
    buffer.save(path)
    header, arrays, write = files_of(path)
    tried = rejected = 0
    for changed in variants(header):
        with contextlib.suppress(ValueError, OverflowError):  # JSON that cannot be written
            write(changed, arrays)
        rejected += not loads_safely(path)
        tried += 1
    assert rejected > tried / 5 > 10


def loads_safely(path):
    """Load a hostile file; return whether this gives a buffer, which must be consistent and usable."""
    try:
        loaded = HindsightReplayBuffer.load(path, **FUNCTIONS)
    except CorruptFileError as error:
        if path.name not in str(error):
            raise
        return False
    if loaded.can_sample:
        loaded.sample(5)
    return True


def hostile_arrays(array):
    """Yield arrays of other lengths, shapes, dtypes and values."""
    yield from (array[:-1], array[..., None])
    if array.dtype.kind in "iu":
        for value in (-1, 2**60):
            yield np.full(array.shape, value, np.int64)
    elif array.dtype.kind == "f":
        yield from (np.full(array.shape, np.nan, array.dtype), -array - 1)


def test_hostile_arrays_are_an_error_or_harmless(tmp_path):
    path, rejected, total = tmp_path / "buffer", 0, 0
    example().save(path)
    header, arrays, write = files_of(path)
    for name, array in arrays.items():
        changes = [arrays | {name: hostile} for hostile in hostile_arrays(array)]
        changes += [{key: value for key, value in arrays.items() if key != name}]
        for changed in changes:
            write(header, changed)
            rejected += not loads_safely(path)
            total += 1
    assert rejected > total / 2
    write(header, arrays)
    assert loads_safely(path)


@pytest.mark.parametrize(
    ("largest", "scaled"), [(0.5, None), (float("inf"), None), (None, 1e-9), (None, 1e9)]
)
def test_priorities_out_of_their_bounds_are_an_error(tmp_path, largest, scaled):
    path = tmp_path / "buffer"
    example().save(path)
    header, arrays, write = files_of(path)
    header = header if largest is None else header | {"largest_priority": str(largest)}
    priorities = arrays["priorities"].copy()
    priorities[-1] = priorities[-1] if scaled is None else scaled
    write(header, arrays | {"priorities": priorities})
    assert not loads_safely(path)
