"""Write files of arrays, block by block, whole or not at all."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from her_wrappers.files.atomic import replacement
from her_wrappers.files.layout import (
    DTYPE_PATTERN,
    FOOTER,
    FOOTER_SIZE,
    LAYOUT,
    MAX_HEADER,
    footer_crc,
    row_slices,
)

if TYPE_CHECKING:
    from her_wrappers.files.layout import Json


@dataclass(frozen=True)
class RowBlocks:
    """An array that is written piece by piece, without ever being in memory as a whole.

    Attributes:
        shape: (N, ...) of the whole.
        dtype: Of the whole.
        blocks: Arrays (n, ...) that end to end are the whole; taken as they are needed.
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
    """Write a file of arrays, whole or not at all: a crash at any moment leaves what was there before.

    Args:
        path: The file to write or replace.
        arrays: Arrays of numbers, bools or strings, by names that may have slashes; `RowBlocks` for what
            should not be in memory at once. Or pairs of names and arrays, taken as they are needed.
        header: Anything JSON that belongs to them.
        kind: What the file is, such as ``"episodes"``.
        version: Version of what ``header`` and the names mean.

    Returns:
        The checksum of the header, which has those of the arrays: it tells this file from others.

    Raises:
        InUseError: Another writer is at work on ``path``.
        OSError: The file cannot be written.
        TypeError: An array has elements that are no numbers, bools or strings, or the header is no JSON.
        ValueError: Row blocks do not make up the array that was announced, a name is none for files or
            comes twice, or the header is too long or has a number that JSON has not.
    """
    with replacement(path) as file, zipfile.ZipFile(file, "w") as zip_file:
        entries: dict[str, Json] = {}
        for name, array in arrays.items() if isinstance(arrays, Mapping) else arrays:
            if name in entries:
                raise ValueError(f"each array must have a name of its own, got two named {name!r}")
            entries[name] = _write_array(zip_file, file, name, array)
        content = {"kind": kind, "version": version, "arrays": entries, "header": dict(header)}
        encoded = json.dumps(content, allow_nan=False, indent=1).encode()
        if len(encoded) > MAX_HEADER:
            raise ValueError(f"the header must have at most {MAX_HEADER} bytes, got {len(encoded)}")
        start, _ = _write_member(zip_file, file, "header.json", [encoded])
        zip_file.comment = bytes(FOOTER_SIZE)
        zip_file.close()
        return _write_footer(file, start, len(encoded))


def _write_array(
    zip_file: zipfile.ZipFile, file: IO[bytes], name: str, array: np.ndarray | RowBlocks
) -> dict[str, Json]:
    """Write an array, and return what the header is to say of it.

    Raises:
        TypeError: Its elements are of a kind that is not written.
        ValueError: Its name ends early for those who read names as C does.
    """
    if "\0" in name:
        raise ValueError(f"the name of an array must have no zero character, got {name!r}")
    dtype = np.dtype(array.dtype)
    if not DTYPE_PATTERN.fullmatch(dtype.str):
        raise TypeError(f"array {name!r} must hold numbers, bools or strings, got dtype {dtype}")
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
    """Yield the blocks of an array.

    Raises:
        ValueError: They are not what was announced.
    """
    rows = 0
    for block in array.blocks:
        if block.dtype != dtype or block.shape[1:] != tuple(array.shape[1:]) or block.ndim == 0:
            raise ValueError(
                f"array {name!r} must have blocks of rows of {dtype} {tuple(array.shape[1:])}, "
                f"got {block.dtype} {block.shape}"
            )
        rows += len(block)
        yield block
    if rows != array.shape[0]:
        raise ValueError(f"array {name!r} must have {array.shape[0]} rows, got blocks of {rows} rows")


def _pieces(array: np.ndarray) -> Iterator[memoryview]:
    """Yield the bytes of an array, no more than a block being copied at once."""
    if array.size == 0:
        return
    array = np.atleast_1d(array)
    for rows in row_slices(array.shape, array.dtype):
        yield np.ascontiguousarray(array[rows]).reshape(-1).view(np.uint8).data


def _write_member(
    zip_file: zipfile.ZipFile, file: IO[bytes], name: str, *parts: Iterable[bytes | memoryview]
) -> tuple[int, int]:
    """Write a member; return where it begins and its checksum."""
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
