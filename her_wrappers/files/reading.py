"""Read files of arrays that may be damaged or malicious.

The footer has the position of the header, and the header has the positions of the arrays; the structure of
the zip is not used. The allocated arrays are not larger than the file, and nothing is unpickled or executed.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.files.atomic import open_regular
from her_wrappers.files.writing import (
    DTYPE_PATTERN,
    FOOTER_PATTERN,
    FOOTER_SIZE,
    LAYOUT,
    MAX_AXES,
    MAX_HEADER,
    StoredArray,
    footer_crc,
    row_slices,
)

if TYPE_CHECKING:
    from her_wrappers.files import Json

MAX_TAIL = 3 * MAX_HEADER
"""Maximal size in bytes of the header and of the directory of the zip together."""


class CorruptFileError(ValueError):
    """A file is damaged, of another kind or of a later version, or was not written by her-toolkit."""


class ArrayFile:
    """A file of arrays, open for reading; use it in a ``with`` block.

    Args:
        path: Path of the file.
        kind: Kind that the file must have.
        version: Latest version that the caller can read.

    Attributes:
        path: Path of the file.
        header: Header that `write_arrays` wrote.
        version: Version that `write_arrays` wrote.
        arrays: Description of each array, by name, in the order in which the arrays were written.
        checksum: Checksum that `write_arrays` returned.

    Raises:
        CorruptFileError: The file is damaged, of another kind, or of a later version.
        OSError: The file does not exist, is not a regular file, or cannot be read.
    """

    header: dict[str, Json]
    version: int
    arrays: dict[str, StoredArray]
    checksum: int

    def __init__(self, path: str | os.PathLike[str], *, kind: str, version: int) -> None:
        self.path = Path(path)
        self._file = open_regular(self.path)
        try:
            start, self.checksum, content = _read_header(self._file, self.path)
            self.header, self.version = content["header"], content["version"]
            _require_kind(self.path, content["kind"], kind)
            _require_known(self.path, f"version {self.version} of {kind!r}", self.version, version)
            self.arrays = _stored_arrays(self.path, content["arrays"], start)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self, name: str, out: np.ndarray | None = None) -> np.ndarray:
        """Read one array.

        Args:
            name: Name of the array.
            out: Array of the same shape and dtype that gets the elements, or None for a new array. After an
                error its content is undefined.

        Returns:
            ``out``, or a new array.

        Raises:
            CorruptFileError: The file does not have the array, or the array is damaged.
            ValueError: ``out`` has another shape or dtype.
        """
        if name not in self.arrays:
            raise CorruptFileError(f"{self.path} has no array {name!r}, only {', '.join(self.arrays)}")
        stored = self.arrays[name]
        if out is None:
            out = np.empty(stored.shape, stored.dtype)
        elif (out.shape, out.dtype) != (stored.shape, stored.dtype):
            raise ValueError(
                f"out must be {stored.dtype} {stored.shape} for array {name!r}, got {out.dtype} {out.shape}"
            )
        self._file.seek(stored.start)
        crc = zlib.crc32(self._file.read(stored.skip))
        if out.size:
            crc = _fill(np.atleast_1d(out), self._file, crc)
        if crc != stored.crc:
            raise CorruptFileError(f"{self.path} is damaged: the checksum of array {name!r} is wrong")
        if not _has_valid_values(out):
            raise CorruptFileError(
                f"{self.path} is damaged: array {name!r} has invalid values for {out.dtype}"
            )
        return out

    def read_all(self) -> dict[str, np.ndarray]:
        """Read all arrays.

        Raises:
            CorruptFileError: An array is damaged.
        """
        return {name: self.read(name) for name in self.arrays}


def _require_kind(path: Path, found: str, kind: str) -> None:
    if found != kind:
        raise CorruptFileError(f"{path} must be a file of kind {kind!r}, got {found!r}")


def _require_known(path: Path, what: str, version: int, known: int) -> None:
    if version > known:
        raise CorruptFileError(
            f"{path} has {what}, and this her-toolkit reads up to version {known}; update her-toolkit"
        )


def _read_header(file: io.BufferedReader, path: Path) -> tuple[int, int, dict[str, Json]]:
    """Return the position, the checksum and the content of the header."""
    length = os.fstat(file.fileno()).st_size
    file.seek(max(0, length - FOOTER_SIZE))
    footer = file.read(FOOTER_SIZE)
    match = FOOTER_PATTERN.fullmatch(footer)
    if match is None:
        raise CorruptFileError(f"{path} is not a file of her-toolkit, or its end is missing")
    layout, start, size, expected_length = map(int, match.groups()[:4])
    tail_size = length - FOOTER_SIZE - start
    if length != expected_length or not size <= tail_size <= MAX_TAIL:
        raise CorruptFileError(
            f"{path} is damaged: expected {expected_length} bytes and a valid header size, got {length} bytes"
        )
    file.seek(start)
    tail = file.read(tail_size)
    crc = int(match[5], 16)
    if footer_crc(tail, footer) != crc:
        raise CorruptFileError(f"{path} is damaged: the checksum of the header is wrong")
    _require_known(path, f"layout {layout}", layout, LAYOUT)
    try:
        return start, crc, _as_header(json.loads(tail[:size], parse_constant=_raise_for_constant))
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise CorruptFileError(f"{path} is damaged: the header is not valid ({error})") from error


def _raise_for_constant(name: str) -> None:
    raise ValueError(f"JSON cannot have {name}")


def _as_header(content: Json) -> dict[str, Json]:
    """Return the JSON of a header, or raise TypeError if a part is missing or has another type."""
    types = {"kind": str, "version": int, "header": dict, "arrays": dict}
    if not isinstance(content, dict) or content.keys() != types.keys():
        raise TypeError(f"expected a dict of {', '.join(types)}")
    for key, expected in types.items():
        if type(content[key]) is not expected:
            got = type(content[key]).__name__
            raise TypeError(f"expected {key} to be of type {expected.__name__}, got {got}")
    return content


def _stored_arrays(path: Path, entries: dict[str, Json], end: int) -> dict[str, StoredArray]:
    """Return the descriptions of the arrays in the header; the arrays must not overlap."""
    arrays, free = {}, 0
    for name, entry in entries.items():
        try:
            stored = _as_stored(entry)
        except (TypeError, ValueError, KeyError) as error:
            raise CorruptFileError(
                f"{path} is damaged: the description of array {name!r} is not valid ({error})"
            ) from error
        if stored.start < free or stored.start + stored.skip + stored.nbytes > end:
            raise CorruptFileError(f"{path} is damaged: the position of array {name!r} is not valid")
        free = stored.start + stored.skip + stored.nbytes
        arrays[name] = stored
    return arrays


def _as_stored(entry: dict[str, Json]) -> StoredArray:
    """Return a description in the header; raise KeyError, TypeError or ValueError if it is not valid."""
    dtype_name, shape = entry["dtype"], tuple(entry["shape"])
    numbers = (*shape, entry["start"], entry["skip"], entry["crc32"])
    if not all(type(number) is int and 0 <= number < 2**62 for number in numbers):
        raise ValueError(f"expected integers >= 0, got {numbers}")
    if not DTYPE_PATTERN.fullmatch(dtype_name) or np.dtype(dtype_name).itemsize <= 0:
        raise ValueError(f"expected a dtype of numbers, bools or strings, got {dtype_name}")
    dtype = np.dtype(dtype_name)
    if len(shape) > MAX_AXES or dtype.itemsize * math.prod(max(1, length) for length in shape) >= 2**62:
        raise ValueError(f"expected a shape of at most {MAX_AXES} axes and 2**62 bytes, got {shape}")
    return StoredArray(dtype, shape, *numbers[-3:])


def _fill(out: np.ndarray, file: io.BufferedReader, crc: int) -> int:
    """Read the elements of ``out``; return the checksum ``crc`` continued over the bytes that were read."""
    for rows in row_slices(out.shape, out.dtype):
        part = out[rows]
        block = part if part.flags.c_contiguous else np.empty(part.shape, part.dtype)
        view = block.reshape(-1).view(np.uint8).data
        count = file.readinto(view)
        crc = zlib.crc32(view[:count], crc)
        if block is not part:
            part[...] = block
    return crc


def _has_valid_values(array: np.ndarray) -> bool:
    """Whether bools are 0 or 1 and strings are valid Unicode; other values can crash code that uses NumPy."""
    if array.dtype.kind not in "bU" or array.size == 0:
        return True
    contiguous = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.kind == "b":
        return bool(contiguous.view(np.uint8).max() <= 1)
    return bool(contiguous.view(contiguous.dtype.str[0] + "u4").max() <= sys.maxunicode)
