"""Files of arrays: arrays are read exactly, or reading raises one clear error."""

import json
import os
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from her_wrappers.data.arrays import ArrayFile, CorruptFileError, write_arrays
from tests.support.archived_episodes import files
from tests.support.damage import assert_exact_or_corrupt
from tests.support.equality import assert_same_tree


def write(path, arrays, header=None, **options):
    write_arrays(path, arrays, header or {}, **{"kind": "test", "version": 1} | options)


def read(path, **options):
    with ArrayFile(path, **{"kind": "test", "version": 1} | options) as file:
        return file.header, {name: file.read(name) for name in file.arrays}


DTYPES = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.unsigned_integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?"),
    npst.complex_number_dtypes(endianness="?"),
    npst.byte_string_dtypes(max_len=5),
    npst.unicode_string_dtypes(max_len=5, endianness="?"),
)
ARRAYS = npst.arrays(DTYPES, npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=10)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
)


@given(arrays=st.dictionaries(NAMES, ARRAYS, max_size=4), header=st.dictionaries(st.text(), JSON, max_size=3))
def test_arrays_are_read_as_they_were_written(tmp_path_factory, arrays, header):
    path = tmp_path_factory.getbasetemp() / "arrays.npz"
    write(path, arrays, header)
    found, back = read(path)
    assert found == header
    assert_same_tree(back, arrays)


def test_numpy_opens_a_file_too(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    arrays = {"camera/left": images, "strided": images[::2, ::3], "transposed": images.T}
    write(tmp_path / "a.npz", arrays, {"number": 3})
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert_same_tree({name: file[name] for name in arrays}, arrays)
        assert json.loads(file["header.json"])["header"] == {"number": 3}


def test_pairs_of_names_and_arrays_are_written_with_one_array_in_memory(tmp_path):
    tracemalloc.start()
    write(tmp_path / "a", ((f"{i}", np.full(1_000_000, i)) for i in range(8)))
    with ArrayFile(tmp_path / "a", kind="test", version=1) as file:
        assert sum(int(file.read(name).sum()) for name in file.arrays) == 1_000_000 * sum(range(8))
    assert tracemalloc.get_traced_memory()[1] < 20e6  # the file has 64 MB
    tracemalloc.stop()


UNWRITABLE = [
    ({"x": np.array([{}])}, {}, TypeError),
    ({"x": np.zeros(2, [("a", int)])}, {}, TypeError),
    ({}, {"a": np.nan}, ValueError),
]


@pytest.mark.parametrize(("arrays", "header", "error"), UNWRITABLE)
def test_a_file_that_cannot_be_written_is_an_error_and_the_old_file_stays(tmp_path, arrays, header, error):
    write(tmp_path / "a", {"x": np.ones(3)})
    with pytest.raises(error):
        write(tmp_path / "a", arrays, header)
    np.testing.assert_array_equal(read(tmp_path / "a")[1]["x"], np.ones(3))
    assert files(tmp_path) == ["a"]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
def test_damaged_files_are_read_correctly_or_raise_corrupt_file_error(tmp_path, seed):
    path, header = tmp_path / "a", {"numbers": [1, 2.5, None, "text"]}
    arrays = {
        "floats": np.random.default_rng(0).random((5, 3)),
        "flags": np.array([True, False]),
        "names": np.array(["one", "zwölf"]),
        "none": np.zeros((0, 2), np.float32),
    }
    write(path, arrays, header)

    def compare():
        found, back = read(path)
        assert found == header
        assert_same_tree(back, arrays)

    assert_exact_or_corrupt(path, compare, 150 if seed == 0 else 30_000, seed)


def forge(path, change, *, compression=zipfile.ZIP_STORED):
    """Write a file with a changed header, as a program that knows the format could."""
    body = np.arange(3.0).tobytes()
    entry = {"dtype": "<f8", "shape": [3], "crc32": zlib.crc32(body)}
    content = {"kind": "test", "version": 1, "arrays": {"x": entry}, "header": {}}
    changed = change(content, entry)
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("x.npy", body)
        file.writestr("header.json", changed if isinstance(changed, bytes) else json.dumps(content))


LIES = {
    "no JSON": lambda c, e: b"{",
    "nesting": lambda c, e: b"[" * 1_000_000,
    "version a bool": lambda c, e: c.update(version=True),
    "a petabyte": lambda c, e: e.update(shape=[2**47]),
    "hidden overflow": lambda c, e: e.update(shape=[2**40, 2**40, 0]),
    "objects": lambda c, e: e.update(dtype="|O"),
    "huge dtype": lambda c, e: e.update(dtype="<U999999999"),
    "an array too many": lambda c, e: c["arrays"].update(y=e),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_with_false_values_raises_corrupt_file_error(tmp_path, lie):
    forge(tmp_path / "a", LIES[lie])
    with pytest.raises(CorruptFileError, match="^" + str(tmp_path / "a")):
        read(tmp_path / "a")


def test_files_of_other_formats_and_compressed_members_are_errors(tmp_path):
    path = tmp_path / "a.npz"
    forge(path, lambda c, e: None)
    np.testing.assert_array_equal(read(path)[1]["x"], np.arange(3))
    forge(path, lambda c, e: None, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(CorruptFileError, match="is compressed"):  # it could fill the memory
        read(path)
    np.savez(path, x=np.arange(3))
    for content in (path.read_bytes(), b"", b"PK\5\6" + bytes(18), bytes(10_000)):
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match="is not a file of her-toolkit"):
            read(path)


def test_a_pipe_is_an_error_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing"):
        with pytest.raises(OSError, match=path.name):
            read(path)


def test_another_kind_or_version_and_a_missing_array_are_errors_of_one_sentence(tmp_path):
    path = tmp_path / "a"
    write(path, {"x": np.zeros(1)}, version=3)
    with pytest.raises(CorruptFileError, match=r"a must contain 'episodes', got 'test'; pass another file$"):
        read(path, kind="episodes")
    with pytest.raises(CorruptFileError, match=r"has version 3 .*; update her-toolkit$"):
        read(path, version=2)
    with pytest.raises(CorruptFileError, match=r"has version 3 .*; use the her-toolkit that wrote"):
        read(path, version=4)
    with ArrayFile(path, kind="test", version=3) as file, pytest.raises(CorruptFileError, match=r"only .'x'"):
        file.read("y")
