"""Hostile and foreign files are an error, or give a buffer that can be used.

The contents of files are altered through `ArrayFile` and `write_arrays`, without knowledge of the format.
"""

from __future__ import annotations

import contextlib

import numpy as np

from her_wrappers import CorruptFileError, HindsightReplayBuffer
from her_wrappers.files.arrays import ArrayFile, write_arrays
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
"""Values that replace those of a header."""


def places_of(json, path=()):
    """Yield the path of each value in a JSON object."""
    for key, value in json.items() if isinstance(json, dict) else enumerate(json):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places_of(value, (*path, key))


def replaced(json, path, value):
    """Return a JSON object with another value at a place."""
    key, *rest = path
    changed = dict(json) if isinstance(json, dict) else list(json)
    changed[key] = replaced(json[key], rest, value) if rest else value
    return changed


def without(json, path):
    """Return a JSON object without the value at a place."""
    key, *rest = path
    if rest:
        return replaced(json, [key], without(json[key], rest))
    return (
        {k: v for k, v in json.items() if k != key}
        if isinstance(json, dict)
        else json[:key] + json[key + 1 :]
    )


def test_hostile_values_in_a_header_are_an_error_or_harmless(tmp_path):
    """Each value of the header is removed, and replaced by each hostile value."""
    buffer, path = example(), tmp_path / "buffer"
    buffer.save(path)
    header, arrays, write = files_of(path)
    places, rejected = list(places_of(header)), 0
    rng = np.random.default_rng(0)
    for place in places:
        values = [HOSTILE[i] for i in rng.permutation(len(HOSTILE))[:4]]
        for changed in [without(header, place), *(replaced(header, place, value) for value in values)]:
            with contextlib.suppress(ValueError, OverflowError):  # JSON that cannot be written
                write(changed, arrays)
            rejected += not loads_safely(path)
    assert rejected > len(places)


def loads_safely(path):
    """Load a hostile file; return whether this gives a buffer, which must be consistent and usable."""
    try:
        loaded = HindsightReplayBuffer.load(path, **FUNCTIONS)
    except CorruptFileError as error:
        if path.name not in str(error):
            raise
        return False
    loaded.verify()
    if loaded.can_sample:
        loaded.sample(5)
    return True


def hostile_arrays(array):
    """Yield arrays of other lengths, shapes, dtypes and values."""
    yield from (array[:-1], np.concatenate([array, array[:1]]), array[..., None], array[:0])
    yield from (np.full(array.shape, "a"), array.astype(complex))
    if array.dtype.kind in "iu":
        for value in (-1, 0, 2**60):
            yield np.full(array.shape, value, np.int64)
        yield array + 0.5
    elif array.dtype.kind == "f":
        yield np.full(array.shape, np.nan, array.dtype)
        yield -array - 1


def test_hostile_arrays_are_an_error_or_harmless(tmp_path):
    path, rejected, total = tmp_path / "buffer", 0, 0
    example().save(path)
    header, arrays, write = files_of(path)
    for name, array in arrays.items():
        changes = [{key: value for key, value in arrays.items() if key != name}]
        changes += [arrays | {name: hostile} for hostile in hostile_arrays(array)]
        for changed in changes:
            write(header, changed)
            rejected += not loads_safely(path)
            total += 1
    assert rejected > total / 2
    write(header, arrays)
    assert loads_safely(path)
