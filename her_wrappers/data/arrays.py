"""Files of named arrays with a JSON header: the format of archives, saved buffers and policies.

A file is a zip of uncompressed ``.npy`` members, so ``numpy.load`` can read it too. The last member,
``header.json``, lists the dtype, shape and checksum (CRC-32) of every array::

    a.npy  b.npy ..  header.json  directory of the zip

The checksums in the directory of the zip show damage. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from her_wrappers.data import Json
from her_wrappers.data.atomic import open_regular, replacement

HEADER = "header.json"
BLOCK = 2**22  # number of bytes that are read at once
DTYPE_PATTERN = re.compile(r"[<>|]([biufc]\d{1,2}|[US]\d{1,9})")

JSON_ERRORS = (AttributeError, LookupError, TypeError, ValueError, OverflowError, RuntimeError)


class CorruptFileError(ValueError):
    """A file is damaged, of another kind or version, or was not written by her-toolkit."""


@contextlib.contextmanager
def as_corrupt(message: str, *others: type[Exception]) -> Iterator[None]:
    """Convert errors that a damaged file causes, and ``others``, to CorruptFileError(``message``)."""
    zip_errors = zipfile.BadZipFile, struct.error, EOFError
    kinds: tuple[type[Exception], ...] = (*zip_errors, *JSON_ERRORS, csv.Error, *others)
    try:
        yield
    except CorruptFileError:
        raise
    except kinds as error:
        reason = ascii(reason_of(error))[1:-1]  # names in a damaged zip can have control characters
        raise CorruptFileError(f"{message}: {reason}") from error


def reason_of(error: Exception) -> str:
    """Return up to 200 characters of the text of an error; for a KeyError, ``"'key' is missing"``."""
    return (f"{error} is missing" if isinstance(error, KeyError) else str(error))[:200]


def require_version(
    path: Path, content: Mapping[str, Json], kind: str, version: int, *, oldest: int | None = None
) -> None:
    """Raise CorruptFileError unless ``content`` has this kind and version, or one from ``oldest`` on."""
    if content["kind"] != kind:
        raise CorruptFileError(f"{path} must contain {kind!r}, got {content['kind']!r}; pass another file")
    found, known = content["version"], version if oldest is None else f"{oldest} to {version}"
    if not (oldest or version) <= found <= version:
        fix = "update her-toolkit" if found > version else "use the her-toolkit that wrote the file"
        raise CorruptFileError(
            f"{path} has version {found} of the file format {kind!r}, but the installed her-toolkit reads "
            f"only version {known}; {fix}"
        )


class StoredArray(NamedTuple):
    """Dtype and shape of an array in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size of all elements together, in bytes."""
        return self.dtype.itemsize * math.prod(self.shape)


def require_storable(name: str, dtype: np.dtype[Any]) -> None:
    """Raise TypeError unless a file can store an array of this dtype."""
    if not DTYPE_PATTERN.fullmatch(dtype.str) or dtype.itemsize <= 0:
        raise TypeError(f"{name} must hold numbers, bools or strings, got dtype {dtype}")


def write_arrays(
    path: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray] | Iterable[tuple[str, np.ndarray]],
    header: Mapping[str, Json],
    *,
    kind: str,
    version: int,
) -> None:
    """Write arrays and a header; after an error, an existing file is unchanged. Names may have slashes."""
    with replacement(path) as file:
        zip_file = zipfile.ZipFile(file, "w")
        try:
            entries: dict[str, Json] = {}
            for name, array in arrays.items() if isinstance(arrays, Mapping) else arrays:
                require_storable(name, array.dtype)
                info = zipfile.ZipInfo(f"{name}.npy")
                description = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
                with zip_file.open(info, "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(member, description)
                    member.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
                entries[name] = {"dtype": array.dtype.str, "shape": array.shape, "crc32": info.CRC}
            content = {"kind": kind, "version": version, "arrays": entries, "header": dict(header)}
            zip_file.writestr(zipfile.ZipInfo(HEADER), json.dumps(content, allow_nan=False))
            zip_file.close()
        finally:
            zip_file.fp = None  # after an error, the garbage collection must not complete the zip


class ArrayFile:
    """A file that `write_arrays` wrote, opened for reading; a damaged file raises CorruptFileError."""

    path: Path
    header: dict[str, Json]  # as given to write_arrays
    arrays: dict[str, StoredArray]  # in the order in which they were written

    def __init__(self, path: str | os.PathLike[str], *, kind: str, version: int) -> None:
        self.path = Path(path)
        self._file = open_regular(self.path)
        self._message = f"{self.path} is damaged, or is not a file of her-toolkit"
        try:
            with as_corrupt(self._message):
                self._zip = zipfile.ZipFile(self._file)
                content = self._read_header()
                require_version(self.path, content, kind, version)
                self.header = content["header"]
                self.arrays = {name: _as_stored(name, entry) for name, entry in content["arrays"].items()}
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, name: str) -> np.ndarray:
        """Return an array; raise CorruptFileError if it is missing or damaged."""
        if name not in self.arrays:
            raise CorruptFileError(f"{self.path} has no array {name!r}, only {list(self.arrays)}")
        stored = self.arrays[name]
        with as_corrupt(self._message), self._zip.open(f"{name}.npy") as member:
            size = self._zip.getinfo(f"{name}.npy").file_size
            if stored.nbytes > size:
                raise ValueError(f"the array {name!r} is smaller than {HEADER} states")
            array = np.empty(stored.shape, stored.dtype)
            view = array.reshape(-1).view(np.uint8).data
            member.read(size - stored.nbytes)  # the header of the .npy member
            for begin in range(0, len(view), BLOCK):
                view[begin : begin + BLOCK] = member.read(min(BLOCK, len(view) - begin))
        return array

    def _read_header(self) -> dict[str, Json]:
        infos = self._zip.infolist()
        if HEADER not in self._zip.namelist():
            raise ValueError(f"it has no {HEADER}")
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise ValueError(f"its array {info.filename} is compressed, which her-toolkit never does")
            if info.header_offset < 0:
                raise ValueError(f"{info.filename} has a negative offset in the zip file")
        if sum(info.file_size for info in infos) > os.fstat(self._file.fileno()).st_size:
            raise ValueError("the sizes of its arrays exceed the size of the file")
        content: dict[str, Json] = json.loads(self._zip.read(HEADER))
        types = {"kind": str, "version": int, "arrays": dict, "header": dict}
        if {key: type(value) for key, value in content.items()} != types:
            raise TypeError(f"{HEADER} has wrong keys or wrong types of values")
        return content


def _as_stored(name: str, entry: dict[str, Json]) -> StoredArray:
    if not DTYPE_PATTERN.fullmatch(entry["dtype"]):
        raise ValueError(f"the dtype of the array {name!r} is not valid: {entry['dtype']}")
    stored = StoredArray(np.dtype(entry["dtype"]), tuple(entry["shape"]))
    require_storable(name, stored.dtype)
    if not all(type(length) is int and length >= 0 for length in stored.shape):
        raise ValueError(f"the shape of the array {name!r} must be integers >= 0, got {stored.shape}")
    return stored
