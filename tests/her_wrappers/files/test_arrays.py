"""Files of arrays: arrays are read exactly, or reading raises one clear error."""

from __future__ import annotations

import contextlib
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

from her_wrappers.files.reading import ArrayFile, CorruptFileError
from her_wrappers.files.writing import FOOTER, FOOTER_SIZE, RowBlocks, write_arrays
from tests.support.damage import damaged
from tests.support.interrupts import Countdown, count_instructions
from tests.support.killed import kills


def names(folder):
    return [path.name for path in folder.iterdir()]


def write(path, arrays, header=None, **options):
    write_arrays(path, arrays, header or {}, **{"kind": "test", "version": 1} | options)


def read(path, **options):
    with ArrayFile(path, **{"kind": "test", "version": 1} | options) as file:
        return file.header, file.read_all()


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


def assert_same(one, other):
    assert list(one) == list(other)
    for name, array in one.items():
        assert (array.dtype, array.shape) == (other[name].dtype, other[name].shape)
        assert array.tobytes() == other[name].tobytes()


@given(arrays=st.dictionaries(NAMES, ARRAYS, max_size=4), header=st.dictionaries(st.text(), JSON, max_size=3))
def test_arrays_are_read_as_they_were_written(tmp_path_factory, arrays, header):
    path = tmp_path_factory.getbasetemp() / "arrays.npz"
    write(path, arrays, header)
    found, back = read(path)
    assert found == header
    assert_same(back, arrays)


def test_numpy_opens_it_too(tmp_path):
    arrays = {"observations/camera": np.arange(24, dtype=np.uint8).reshape(2, 3, 4), "steps": np.array(7)}
    write(tmp_path / "a.npz", arrays, {"number": 3})
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert_same({name: file[name] for name in arrays}, arrays)
        assert json.loads(file["header.json"])["header"] == {"number": 3}
    assert zipfile.ZipFile(tmp_path / "a.npz").testzip() is None


@pytest.mark.parametrize("order", ["strided", "transposed", "fortran"])
def test_arrays_need_not_be_contiguous(tmp_path, order):
    array = np.arange(120).reshape(10, 12)
    array = {"strided": array[::2, ::3], "transposed": array.T, "fortran": np.asfortranarray(array)}[order]
    write(tmp_path / "a", {"x": array})
    np.testing.assert_array_equal(read(tmp_path / "a")[1]["x"], array)


def test_fields_of_records_are_written_and_read_in_place(tmp_path):
    records = np.zeros(500_000, [("a", np.float32, (3,)), ("b", np.int64)])
    records["a"] = np.arange(1_500_000).reshape(-1, 3)
    write(tmp_path / "a", {"a": records["a"]})
    other = np.zeros_like(records)
    with ArrayFile(tmp_path / "a", kind="test", version=1) as file:
        file.read("a", out=other["a"])
    np.testing.assert_array_equal(other, records)


def test_large_arrays_are_written_in_blocks(tmp_path):
    whole = np.random.default_rng(0).random((1_000_000, 3))  # several blocks
    blocks = (whole[i : i + 70_000] for i in range(0, len(whole), 70_000))
    write(tmp_path / "a", {"whole": whole, "blocks": RowBlocks(whole.shape, whole.dtype, blocks)})
    write(tmp_path / "b", {"none": RowBlocks((0, 3), np.float32, [])})
    into = np.empty_like(whole)
    with ArrayFile(tmp_path / "a", kind="test", version=1) as file:
        assert file.read("blocks", out=into) is into
        np.testing.assert_array_equal(into, whole)
        np.testing.assert_array_equal(file.read("whole"), whole)
    assert read(tmp_path / "b")[1]["none"].shape == (0, 3)


def test_reading_and_writing_need_one_block_of_memory_besides_the_array(tmp_path):
    shape = (8_000_000,)  # 64 MB
    blocks = (np.full(100_000, i) for i in range(80))
    tracemalloc.start()
    write(tmp_path / "a", {"a": RowBlocks(shape, int, blocks)})
    assert tracemalloc.get_traced_memory()[1] < 20e6
    out = np.empty(shape, int)
    tracemalloc.reset_peak()
    with ArrayFile(tmp_path / "a", kind="test", version=1) as file:
        file.read("a", out=out)
    assert tracemalloc.get_traced_memory()[1] < out.nbytes + 20e6
    tracemalloc.stop()
    assert out[::100_000].tolist() == list(range(80))


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"x\0": np.zeros(1)}, ValueError, "the name of an array must not have a null character, got"),
        ({"x": np.array([{}])}, TypeError, "x must hold numbers, bools or strings, got dtype object"),
        ({"x": np.zeros(2, "datetime64[s]")}, TypeError, "must hold numbers, bools or strings"),
        ({"x": np.zeros(2, [("a", int)])}, TypeError, "must hold numbers, bools or strings"),
        (
            {"x": RowBlocks((3,), float, [np.zeros(2)])},
            ValueError,
            "array 'x' must have 3 rows, got blocks of 2",
        ),
        (
            {"x": RowBlocks((1, 2), float, [np.zeros((1, 3))])},
            ValueError,
            r"blocks of array 'x' must have rows of float64 \(2,\), got float64 \(1, 3\)",
        ),
        ({"x": RowBlocks((1,), float, [np.zeros(1, int)])}, ValueError, "got int64"),
    ],
)
def test_an_array_that_cannot_be_written_is_an_error_and_the_old_file_stays(tmp_path, arrays, error, message):
    write(tmp_path / "a", {"x": np.ones(3)})
    with pytest.raises(error, match=message):
        write(tmp_path / "a", arrays)
    np.testing.assert_array_equal(read(tmp_path / "a")[1]["x"], np.ones(3))
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("header", "error"),
    [({"a": np.nan}, ValueError), ({"a": {1, 2}}, TypeError), ({"a": "x" * 2**22}, ValueError)],
)
def test_a_header_that_is_not_json_is_an_error(tmp_path, header, error):
    with pytest.raises(error):
        write(tmp_path / "a", {}, header)
    assert names(tmp_path) == []


def example(path):
    """Write a small file with arrays of several dtypes; return its bytes and the arrays and header read."""
    arrays = {
        "floats": np.random.default_rng(0).random((5, 3)),
        "flags": np.array([True, False]),
        "names": np.array(["one", "zwölf"]),
        "none": np.zeros((0, 2), np.float32),
    }
    write(path, arrays, {"numbers": [1, 2.5, None, "text"]})
    return path.read_bytes(), read(path)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
def test_damaged_files_are_read_correctly_or_raise_corrupt_file_error(tmp_path, seed):
    path = tmp_path / "a"
    content, (header, arrays) = example(path)
    refused = 0
    for variant in damaged(content, 3000 if seed == 0 else 30_000, seed):
        path.write_bytes(variant)
        try:
            found, back = read(path)
        except CorruptFileError:
            refused += 1
        else:
            assert found == header
            assert_same(back, arrays)
    assert refused > 2000


def test_a_flipped_bit_in_an_array_is_found(tmp_path):
    path = tmp_path / "a"
    content, _ = example(path)
    with ArrayFile(path, kind="test", version=1) as file:
        places = [(stored.start, stored.skip + stored.nbytes) for stored in file.arrays.values()]
    for start, size in places:
        for at in range(start, start + size):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            with pytest.raises(CorruptFileError, match=r"the checksum of .* is wrong"):
                read(path)


def test_a_flipped_bit_after_the_arrays_is_found(tmp_path):
    path = tmp_path / "a"
    content, _ = example(path)
    for at in range(content.index(b'{\n "kind"'), len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(CorruptFileError):
            read(path)


def forge(path, change, *, body=b"", layout=1):
    """Write a file with a changed header and correct checksums."""
    array = np.arange(3.0)
    entry = {"dtype": "<f8", "shape": [3], "start": 0, "skip": 0, "crc32": zlib.crc32(array.tobytes())}
    content = {"kind": "test", "version": 1, "arrays": {"x": entry}, "header": {}}
    changed = change(content, entry)
    content = content if changed is None else changed
    encoded = content if isinstance(content, bytes) else json.dumps(content).encode()
    body = body or array.tobytes()
    footer = FOOTER.format(
        layout=layout, start=len(body), size=len(encoded), length=len(body + encoded) + FOOTER_SIZE, crc=0
    ).encode()[:-9]
    crc = zlib.crc32(footer, zlib.crc32(encoded))
    path.write_bytes(body + encoded + footer + b"%08x\n" % crc)


LIES = {
    "nothing": lambda c, e: b"",
    "no dict": lambda c, e: b"[]",
    "no JSON": lambda c, e: b"{",
    "no text": lambda c, e: b"\xff\xfe",
    "NaN": lambda c, e: json.dumps(c).replace("{}", '{"a": NaN}').encode(),
    "nesting": lambda c, e: b"[" * 1_000_000,
    "endless number": lambda c, e: json.dumps(c).replace('"version": 1', '"version": ' + "9" * 5000).encode(),
    "a part too many": lambda c, e: c.update(more=1),
    "a part too few": lambda c, e: c.pop("header") and None,
    "version no number": lambda c, e: c.update(version="1"),
    "version a bool": lambda c, e: c.update(version=True),
    "header a list": lambda c, e: c.update(header=[]),
    "entry no dict": lambda c, e: c.update(arrays={"x": 5}),
    "a petabyte": lambda c, e: e.update(shape=[2**47]),
    "overflow": lambda c, e: e.update(shape=[2**32, 2**32, 2**32]),
    "hidden overflow": lambda c, e: e.update(shape=[2**40, 2**40, 0]),
    "long numbers": lambda c, e: e.update(shape=[10**400]),
    "negative": lambda c, e: e.update(shape=[-3]),
    "negative twice": lambda c, e: e.update(shape=[-3, -1]),
    "a float": lambda c, e: e.update(shape=[3.0]),
    "no list": lambda c, e: e.update(shape=3),
    "many axes": lambda c, e: e.update(shape=[1] * 100),
    "objects": lambda c, e: e.update(dtype="|O"),
    "records": lambda c, e: e.update(dtype="<f4,<f4"),
    "no dtype": lambda c, e: e.update(dtype="<f3"),
    "dtype of nothing": lambda c, e: e.update(dtype="<U0"),
    "huge dtype": lambda c, e: e.update(dtype="<U999999999"),
    "dtype no text": lambda c, e: e.update(dtype=["<f8"]),
    "another dtype": lambda c, e: e.update(dtype="<f4"),
    "behind the end": lambda c, e: e.update(start=10**6),
    "into the header": lambda c, e: e.update(start=8),
    "before the start": lambda c, e: e.update(start=-8),
    "a bomb": lambda c, e: c.update(arrays={str(i): e for i in range(1000)}),
    "a missing member": lambda c, e: e.pop("crc32") and None,
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_with_false_values_raises_corrupt_file_error(tmp_path, lie):
    path = tmp_path / "a"
    forge(path, lambda content, entry: None)
    np.testing.assert_array_equal(read(path)[1]["x"], np.arange(3))
    forge(path, LIES[lie])
    with pytest.raises(CorruptFileError, match="^" + str(path)):
        read(path)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("|b1", b"\1\2\0"), ("<U1", b"\0\0\x11\0"), (">U1", b"\0\x11\0\0"), ("<U1", b"\xff" * 4)],
)
def test_invalid_bools_and_strings_are_errors(tmp_path, dtype, values):
    def change(content, entry):
        size = len(values) // np.dtype(dtype).itemsize
        entry.update(dtype=dtype, shape=[size], crc32=zlib.crc32(values))

    forge(tmp_path / "a", change, body=values)
    with pytest.raises(CorruptFileError, match="array 'x' has invalid values"):
        read(tmp_path / "a")


@pytest.mark.slow
def test_a_header_of_many_false_entries_is_an_error(tmp_path):
    def many_arrays(content, entry):
        content["arrays"] = {f"{i}": {**entry, "shape": [0]} for i in range(40_000)}

    forge(tmp_path / "a", many_arrays)
    with pytest.raises(CorruptFileError):
        read(tmp_path / "a")


def test_files_of_other_formats_are_errors(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3))
    for content in (path.read_bytes(), b"", b"PK\5\6" + bytes(18), b"{}", bytes(10_000)):
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match=r"is not a file of her-toolkit, or its end is missing"):
            read(path)


def test_a_pickle_is_never_loaded(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([print], dtype=object))
    with pytest.raises(CorruptFileError):
        read(path)


def test_a_file_with_an_additional_member_is_an_error(tmp_path):
    path = tmp_path / "a.npz"
    write(path, {"x": np.arange(3)})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("more.npy", b"more")
    with pytest.raises(CorruptFileError):
        read(path)


def test_a_pipe_is_an_error_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing"):
        with pytest.raises(OSError, match=path.name):
            read(path)


def test_another_kind_and_later_versions_are_errors_of_one_sentence(tmp_path):
    path = tmp_path / "a"
    write(path, {}, version=3)
    with pytest.raises(CorruptFileError, match=r"a must be a file of kind 'episodes', got 'test'$"):
        read(path, kind="episodes")
    with pytest.raises(
        CorruptFileError,
        match=r"a has version 3 of 'test', and this her-toolkit reads up to version 2; update her-toolkit$",
    ):
        read(path, version=2)
    assert read(path, version=4)
    forge(path, lambda content, entry: None, layout=2)
    with pytest.raises(
        CorruptFileError, match="a has layout 2, and this her-toolkit reads up to version 1; update"
    ):
        read(path)


def test_out_must_have_the_shape_and_dtype_of_the_array(tmp_path):
    write(tmp_path / "a", {"x": np.arange(3)})
    with ArrayFile(tmp_path / "a", kind="test", version=1) as file:
        with pytest.raises(ValueError, match=r"out must be int64 \(3,\) for array 'x', got float64 \(3,\)"):
            file.read("x", out=np.empty(3))
        with pytest.raises(CorruptFileError, match="a has no array 'y', only x"):
            file.read("y")


@pytest.mark.parametrize("times", [3, pytest.param(30, marks=pytest.mark.campaign)])
def test_a_kill_while_writing_leaves_the_file_before_or_the_new_one(tmp_path, times):
    path = tmp_path / "a"
    code = f"""
import itertools, numpy as np
from her_wrappers.files.writing import RowBlocks, write_arrays
for i in itertools.count():
    blocks = RowBlocks((20, 10_000), int, (np.full((1, 10_000), i) for _ in range(20)))
    write_arrays({str(path)!r}, {{"x": np.full(100_000, i), "y": blocks}}, {{"i": i}}, kind="test", version=1)
    print(i, flush=True)
"""
    unfinished = 0
    for _ in kills(code, times):
        header, arrays = read(path)
        assert all((array == header["i"]).all() for array in arrays.values())
        unfinished += (tmp_path / "a.her-part").exists()
        assert set(names(tmp_path)) <= {"a", "a.her-part"}
    assert unfinished or times < 100, "no kill came while a file was written"
    write(path, {"x": np.zeros(1)})
    assert names(tmp_path) == ["a"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files closed by deletion
def test_an_interrupt_at_any_instruction_stays_a_keyboard_interrupt_and_leaves_a_whole_file(tmp_path):
    def write_both():
        write(tmp_path / "file", {"a": np.zeros(3), "b": np.ones(2)})

    for number in range(0, count_instructions(write_both, "her_wrappers/files/"), 2):
        # The last counts may lie past the end, since leftovers of an interrupted write take instructions.
        with contextlib.suppress(KeyboardInterrupt), Countdown(number, "her_wrappers/files/").running():
            write_both()
        assert read(tmp_path / "file")[0] == {}
