"""Write files of named arrays with a JSON header: the file format of archives and saved buffers.

A file is a zip of uncompressed ``.npy`` members, so ``numpy.load`` can read it too. The last member,
``header.json``, lists the dtype, shape, position and checksum of every array. The comment of the zip is the
footer: it has the position of the header, the length of the file, and the checksum of all bytes from the
header on.

::

    a.npy  b.npy ..  header.json  directory of the zip  footer
    |- a crc32 for -||------- one crc32 for all of this ------|
    |- each array --|
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from her_wrappers.files.atomic import replacement

if TYPE_CHECKING:
    from her_wrappers.files import Json

LAYOUT = 1
"""Version of the layout above; the content of the header has a separate version."""

FOOTER = (
    "her-toolkit arrays {layout:04d} header {start:020d} {size:020d} file {length:020d} crc32 {crc:08x}\n"
)
FOOTER_PATTERN = re.compile(
    rb"her-toolkit arrays (\d{4}) header (\d{20}) (\d{20}) file (\d{20}) crc32 ([0-9a-f]{8})\n"
)
FOOTER_SIZE = len(FOOTER.format(layout=0, start=0, size=0, length=0, crc=0))

MAX_HEADER = 2**22
"""Maximal size of the header in bytes, which limits the time to read it."""

BLOCK = 2**22
"""Number of bytes that are read or written at once."""

MAX_AXES = 32
"""NumPy 1 supports at most this number of axes."""

MAX_NAME = 4000
"""Maximal length of the name of an array in characters; the names in zip files are limited too."""

DTYPE_PATTERN = re.compile(r"[<>|]([biufc]\d{1,2}|[US]\d{1,9})")


@dataclass(frozen=True)
class StoredArray:
    """Description of an array in the header.

    Attributes:
        dtype: Dtype of the elements.
        shape: Shape of the array.
        start: Position of the first byte of the array's ``.npy`` data in the file.
        skip: Size of the ``.npy`` header at the beginning of the member, in bytes.
        crc: Checksum (CRC-32) of the ``.npy`` data: its header and the elements.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    skip: int
    crc: int

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return size


def require_storable(name: str, dtype: np.dtype[Any], axes: int) -> None:
    """Raise an error unless a file can store an array.

    Args:
        name: Name of the array.
        dtype: Dtype of the array.
        axes: Number of axes of the array.

    Raises:
        TypeError: The elements are not numbers, bools or strings.
        ValueError: The array has too many axes, or the name cannot be stored.
    """
    if not DTYPE_PATTERN.fullmatch(dtype.str) or dtype.itemsize <= 0:
        raise TypeError(f"{name} must hold numbers, bools or strings, got dtype {dtype}")
    if axes > MAX_AXES:
        raise ValueError(f"{name} must have at most {MAX_AXES} axes, got {axes}")
    if len(name) > MAX_NAME:
        raise ValueError(
            f"the name of an array must be at most {MAX_NAME} characters long, got {len(name)}: {name[:50]}.."
        )
    if "\0" in name:  # programs in C would read only the part before it
        raise ValueError(f"the name of an array must not have a null character, got {name!r}")


def row_slices(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[slice]:
    """Yield slices of rows of at most ``BLOCK`` bytes, or of one row if a row is larger.

    Args:
        shape: Shape of the array, which has at least one axis.
        dtype: Dtype of the array.
    """
    row = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    count = max(1, BLOCK // max(1, row))
    for first in range(0, shape[0], count):
        yield slice(first, first + count)


def footer_crc(tail: bytes, footer: bytes) -> int:
    """Return the checksum of the bytes from the header on, ``tail``, and of the footer up to its checksum."""
    return zlib.crc32(footer[:-9], zlib.crc32(tail))


@dataclass(frozen=True)
class RowBlocks:
    """An array that is written block by block, without being completely in memory.

    Attributes:
        shape: (N, ...), shape of the array.
        dtype: Dtype of the array.
        blocks: Arrays (n, ...) whose concatenation is the array; iterated over while the file is written.
    """

    shape: tuple[int, ...]
    dtype: Any
    blocks: Iterable[np.ndarray]


def write_arrays(
    path: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray | RowBlocks] | Iterable[tuple[str, np.ndarray | RowBlocks]],
    header: Mapping[str, Json],
    *,
    kind: str,
    version: int,
) -> int:
    """Write a file of arrays; if the process crashes, the previous file does not change.

    Args:
        path: File to write or replace.
        arrays: Arrays of numbers, bools or strings by name, or pairs of names and arrays, iterated over while
            the file is written. Names may have slashes. Arrays that should not be completely in memory
            are given as `RowBlocks`.
        header: JSON that belongs to the arrays.
        kind: Kind of the file, such as ``"episodes"``.
        version: Version of the format of ``header`` and of the names.

    Returns:
        The checksum of the header. Since the header has the checksums of the arrays, it identifies the file.

    Raises:
        InUseError: Another writer is writing ``path``.
        OSError: The file cannot be written.
        TypeError: An array has elements that are not numbers, bools or strings, or the header is not JSON.
        ValueError: Row blocks do not have the shape or dtype of their array, an array has too many axes, a
            name cannot be stored or is used twice, or the header is too long or has a NaN or infinity.
    """
    with replacement(path) as file, _ZipWriter(file, "w") as zip_file:
        entries: dict[str, Json] = {}
        for name, array in arrays.items() if isinstance(arrays, Mapping) else arrays:
            if name in entries:
                raise ValueError(f"the names of arrays must differ, got {name!r} twice")
            entries[name] = _write_array(zip_file, file, name, array)
        content = {"kind": kind, "version": version, "arrays": entries, "header": dict(header)}
        encoded = json.dumps(content, allow_nan=False, indent=1).encode()
        if len(encoded) > MAX_HEADER:
            raise ValueError(
                f"cannot write {path}: the description of its arrays and options must have at most "
                f"{MAX_HEADER} bytes, got {len(encoded)}"
            )
        start, _ = _write_member(zip_file, file, "header.json", [encoded])
        zip_file.comment = bytes(FOOTER_SIZE)
        zip_file.close()
        return _write_footer(file, start, len(encoded))


class _ZipWriter(zipfile.ZipFile):
    """A ZipFile that writes nothing after an error, since completing the file may raise another error."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def __del__(self) -> None:
        pass


def _write_array(
    zip_file: zipfile.ZipFile, file: IO[bytes], name: str, array: np.ndarray | RowBlocks
) -> dict[str, Json]:
    """Write an array, and return its entry in the header."""
    dtype = np.dtype(array.dtype)
    require_storable(name, dtype, len(array.shape))
    shape = tuple(map(int, array.shape))
    npy = io.BytesIO()
    np.lib.format.write_array_header_1_0(npy, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    blocks = [array] if isinstance(array, np.ndarray) else _whole(name, array, dtype)
    pieces = (piece for block in blocks for piece in _pieces(block))
    start, crc = _write_member(zip_file, file, f"{name}.npy", [npy.getvalue()], pieces)
    return {
        "dtype": dtype.str, "shape": list(shape), "start": start, "skip": len(npy.getvalue()), "crc32": crc,
    }  # fmt: skip


def _whole(name: str, array: RowBlocks, dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
    # Yields the blocks of an array, and checks that they make up the array.
    rows = 0
    for block in array.blocks:
        if block.dtype != dtype or block.shape[1:] != tuple(array.shape[1:]) or block.ndim == 0:
            raise ValueError(
                f"blocks of array {name!r} must have rows of {dtype} {tuple(array.shape[1:])}, "
                f"got {block.dtype} {block.shape}"
            )
        rows += len(block)
        yield block
    if rows != array.shape[0]:
        raise ValueError(f"array {name!r} must have {array.shape[0]} rows, got blocks of {rows} rows")


def _pieces(array: np.ndarray) -> Iterator[memoryview]:
    """Yield the bytes of an array; at most one block is copied at a time."""
    if array.size == 0:
        return
    array = np.atleast_1d(array)
    for rows in row_slices(array.shape, array.dtype):
        yield np.ascontiguousarray(array[rows]).reshape(-1).view(np.uint8).data


def _write_member(
    zip_file: zipfile.ZipFile, file: IO[bytes], name: str, *parts: Iterable[bytes | memoryview]
) -> tuple[int, int]:
    """Write a member; return its position and its checksum."""
    info = zipfile.ZipInfo(name)
    with zip_file.open(info, "w", force_zip64=True) as member:
        start = file.tell()
        for part in parts:
            for piece in part:
                member.write(piece)
    return start, info.CRC


def _write_footer(file: IO[bytes], start: int, size: int) -> int:
    length = file.seek(0, os.SEEK_END)
    footer = FOOTER.format(layout=LAYOUT, start=start, size=size, length=length, crc=0).encode()
    file.seek(start)
    crc = footer_crc(file.read(length - FOOTER_SIZE - start), footer)
    file.seek(length - FOOTER_SIZE)
    file.write(footer[:-9] + b"%08x\n" % crc)
    return crc
