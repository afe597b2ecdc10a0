"""InfoColumns: the infos of many environments, read from Gymnasium's dicts of arrays with their masks.

An info ``k`` of N environments is an array ``infos["k"]`` with a row for each, and ``infos["_k"]``, (N,)
bool, says which of them have it. Where there is no mask all have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

import numpy as np

from her_wrappers.recording.batch_columns import moved, take_rows
from her_wrappers.recording.values import as_info, kind_of
from her_wrappers.trees import NUMBERS, STRINGS

if TYPE_CHECKING:
    from her_wrappers.recording.batch_columns import Where


class InfoBatch(NamedTuple):
    """One info of all environments.

    Attributes:
        values: (N, ...) array.
        there: (N,) bool, the environments that have it.
    """

    values: np.ndarray
    there: np.ndarray


class InfoColumns:
    """The infos asked for, each an array (capacity, N, ...) of a dtype that holds all that came.

    Args:
        keys: Which infos.
        num_envs: Number of environments, N.
        capacity: Number of rows.
    """

    def __init__(self, keys: Iterable[str], num_envs: int, capacity: int) -> None:
        self._keys = tuple(keys)
        self._num_envs = num_envs
        self._capacity = capacity
        self._values: dict[str, np.ndarray] = {}
        self._there: dict[str, np.ndarray] = {}

    def read(self, infos: Any, required: np.ndarray, where: Where) -> dict[str, InfoBatch]:
        """Return the infos of a step or a reset.

        Args:
            infos: As the environment returned them.
            required: (N,) bool, the environments that must have all.
            where: Where each environment is.

        Raises:
            ValueError: One is missing, cannot be kept, or has another shape or kind than before.
        """
        if not self._keys:
            return {}
        if not isinstance(infos, Mapping):
            raise ValueError(  # noqa: TRY004 - what is wrong is the environment, not an argument's type
                f"infos must be a dict of arrays to record info_keys from, got {type(infos).__name__}; "
                "put the recorder below what changes them"
            )
        batches = {key: _read(key, infos, required, where) for key in self._keys}
        found = {key: batch for key, batch in batches.items() if batch is not None}
        for key, batch in found.items():
            self._fit(key, batch, where)
        return found

    def write(self, slot: int, batches: Mapping[str, InfoBatch], rows: np.ndarray | None = None) -> None:
        """Copy what was read, or the given rows of it."""
        at: Any = slot if rows is None else (slot, rows)
        of: Any = slice(None) if rows is None else rows
        for key, there in self._there.items():
            if key in batches:
                self._values[key][at] = batches[key].values[of]
                there[at] = batches[key].there[of]
            else:
                there[at] = False

    def take(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Return what stands at slot * N + environment, modulo the whole."""
        return {key: take_rows(values, index) for key, values in self._values.items()}

    def take_first(self, index: np.ndarray) -> Sequence[Mapping[str, np.ndarray]]:
        """Return one dict for each index, of the infos that are there; () where none were asked for."""
        if not self._keys:
            return ()
        return FirstInfos(
            len(index),
            {key: InfoBatch(v, take_rows(self._there[key], index)) for key, v in self.take(index).items()},
        )

    def move(self, slots: np.ndarray, capacity: int) -> None:
        """Make room for ``capacity`` rows, and move each row to the slot given for it."""
        self._capacity = capacity
        for columns in (self._values, self._there):
            columns.update({key: moved(column, slots, capacity) for key, column in columns.items()})

    def _fit(self, key: str, batch: InfoBatch, where: Where) -> None:
        """See that the column of ``key`` can hold a batch.

        Raises:
            ValueError: Its rows have another shape or kind.
        """
        values = batch.values
        if key not in self._values:
            self._values[key] = np.zeros((self._capacity, *values.shape), values.dtype)
            self._there[key] = np.zeros((self._capacity, self._num_envs), bool)
        column = self._values[key]
        if column.dtype == values.dtype and column.shape[1:] == values.shape:
            return
        before, now = kind_of(column[0, 0]), kind_of(values[0])
        if before != now:
            raise ValueError(
                f"info {key!r} must keep its shape and kind, got {before} and then {now} "
                f"{where(int(batch.there.argmax()))}"
            )
        self._values[key] = column.astype(np.promote_types(column.dtype, values.dtype))


class FirstInfos(Sequence[Mapping[str, np.ndarray]]):
    """Dicts of infos, one an episode, made when they are asked for.

    Args:
        count: Number of dicts, n.
        batches: Infos of n episodes.
    """

    def __init__(self, count: int, batches: Mapping[str, InfoBatch]) -> None:
        self._count = count
        self._batches = batches

    def __len__(self) -> int:
        """Return the number of dicts."""
        return self._count

    @overload
    def __getitem__(self, key: SupportsIndex) -> dict[str, np.ndarray]: ...

    @overload
    def __getitem__(self, key: slice) -> FirstInfos: ...

    def __getitem__(self, key: SupportsIndex | slice) -> dict[str, np.ndarray] | FirstInfos:
        """Return one dict, or some."""
        if isinstance(key, slice):
            count = len(range(self._count)[key])
            return FirstInfos(
                count, {name: InfoBatch(v[key], there[key]) for name, (v, there) in self._batches.items()}
            )
        i = range(self._count)[key]
        return {name: np.array(v[i]) for name, (v, there) in self._batches.items() if there[i]}


def _read(key: str, infos: Mapping[str, Any], required: np.ndarray, where: Where) -> InfoBatch | None:
    """Return one info of all environments, or None where none has it.

    Raises:
        ValueError: One that must have it has not, or it cannot be kept.
    """
    count = len(required)
    there = np.asarray(infos.get(f"_{key}", np.ones(count, bool))) & (key in infos)
    if there.shape != (count,) or there.dtype != np.bool_:
        raise ValueError(f"infos['_{key}'] must be ({count},) bools, got {infos[f'_{key}']!r}")
    missing = np.flatnonzero(required & ~there)
    if missing.size:
        has = sorted(name for name in infos if not name.startswith("_"))
        raise ValueError(f"info has no {key!r} {where(int(missing[0]))}; it has {has}")
    if not there.any():
        return None
    values = _as_rows(infos[key])
    if values.shape[:1] != (count,):
        first = int(there.argmax())
        raise ValueError(
            f"info {key!r} must be numbers or strings with a row for each of {count} environments, "
            f"got {infos[key]!r} {where(first)}"
        )
    if values.dtype == object:
        values = _unpack(key, values, there, where)
    return InfoBatch(values, there)


def _as_rows(value: Any) -> np.ndarray:
    """Return an info as an array of numbers, strings or objects; of no shape where it has no rows."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        array = np.asarray(None)
    return array if array.dtype.kind in NUMBERS + STRINGS + "O" else np.asarray(None)


def _unpack(key: str, values: np.ndarray, there: np.ndarray, where: Where) -> np.ndarray:
    """Make one array of objects, as which Gymnasium gives infos that are NumPy bools, strings or lists.

    Raises:
        ValueError: One is neither numbers nor strings, or they differ in shape or kind.
    """
    rows = np.flatnonzero(there)
    unpacked = _as_rows(values[rows].tolist())
    if unpacked.shape[:1] != rows.shape or unpacked.dtype.kind not in NUMBERS:
        unpacked = _stack(key, values, rows.tolist(), where)
    batch = np.zeros((len(there), *unpacked.shape[1:]), unpacked.dtype)
    batch[rows] = unpacked
    return batch


def _stack(key: str, values: np.ndarray, rows: list[int], where: Where) -> np.ndarray:
    """Make one array of objects that are strings, or say why they cannot be put together.

    Raises:
        ValueError: One is neither numbers nor strings, or they differ in shape or kind.
    """
    arrays = [as_info(key, values[i], where(i)) for i in rows]
    for i, array in zip(rows, arrays, strict=True):
        if kind_of(array) != kind_of(arrays[0]):
            raise ValueError(
                f"info {key!r} must be of one shape and kind in all environments, "
                f"got {kind_of(arrays[0])} and {kind_of(array)} {where(i)}"
            )
    return np.stack(arrays)
