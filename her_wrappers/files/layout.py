"""Layout of a file of named arrays with a JSON header: what archives and saved buffers are made of.

A file is a zip of uncompressed ``.npy`` members, so that ``numpy.load`` opens it too. The last member,
``header.json``, lists every array: dtype, shape, place, checksum. The zip's comment is the footer: where the
header begins, how long the file is, and the checksum of everything from there on.

::

    a.npy  b.npy ..  header.json  directory of the zip  footer
    |- a crc32 for -||------- one crc32 for all of this ------|
    |- each array --|
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Json: TypeAlias = Any
"""What ``json.dumps`` writes and ``json.loads`` gives back alike."""

LAYOUT = 1
"""Version of the layout above; what the header means has a version of its own."""

FOOTER = (
    "her-toolkit arrays {layout:04d} header {start:020d} {size:020d} file {length:020d} crc32 {crc:08x}\n"
)
FOOTER_PATTERN = re.compile(
    rb"her-toolkit arrays (\d{4}) header (\d{20}) (\d{20}) file (\d{20}) crc32 ([0-9a-f]{8})\n"
)
FOOTER_SIZE = len(FOOTER.format(layout=0, start=0, size=0, length=0, crc=0))

MAX_HEADER = 2**22
"""A longer header, in bytes, would take longer than a second to read."""

BLOCK = 2**22
"""Bytes that are read or written at once."""

MAX_AXES = 32
"""NumPy 1 has no arrays of more."""

MAX_NAME = 4000
"""Characters of the name of an array; zip files take some more."""

DTYPE_PATTERN = re.compile(r"[<>|]([biufc]\d{1,2}|[US]\d{1,9})")


@dataclass(frozen=True)
class StoredArray:
    """What the header says of an array.

    Attributes:
        dtype: Of its elements.
        shape: Of the array.
        start: Where in the file its member begins, with the header of ``.npy``.
        skip: Length of that header in bytes.
        crc: Checksum of the member.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    skip: int
    crc: int

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return size


def require_storable(name: str, dtype: np.dtype[Any], axes: int) -> None:
    """Refuse an array that could not be written, or not be read again.

    Raises:
        TypeError: Its elements are no numbers, bools or strings.
        ValueError: It has too many axes, or a name that no file holds.
    """
    if not DTYPE_PATTERN.fullmatch(dtype.str) or dtype.itemsize <= 0:
        raise TypeError(f"{name} must hold numbers, bools or strings, got dtype {dtype}")
    if axes > MAX_AXES:
        raise ValueError(f"{name} must have at most {MAX_AXES} axes, got {axes}")
    if len(name) > MAX_NAME:
        raise ValueError(
            f"the name of an array must be at most {MAX_NAME} characters long, got {len(name)}: {name[:50]}.."
        )
    if "\0" in name:  # it ends there for those who read names as C does
        raise ValueError(f"the name of an array must have no zero character, got {name!r}")


def row_slices(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[slice]:
    """Cut an array of at least one axis into rows of about a block."""
    row = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    count = max(1, BLOCK // max(1, row))
    for first in range(0, shape[0], count):
        yield slice(first, first + count)


def footer_crc(tail: bytes, footer: bytes) -> int:
    """Return the checksum of the header, of what follows on it, and of the footer up to its checksum."""
    return zlib.crc32(footer[:-9], zlib.crc32(tail))
