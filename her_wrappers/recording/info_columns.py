"""InfoColumns: arrays of a vector environment's infos, one row per step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np

from her_wrappers.infos import InfoBatch, Where, describe_info, info_batch
from her_wrappers.recording.batch_columns import moved, take_rows
from her_wrappers.trees import concatenate_trees


class InfoColumns:
    """The requested infos, each an array (capacity, N, ...) with the common dtype of all recorded values.

    Args:
        keys: Keys of the infos.
        num_envs: Number of environments, N.
        capacity: Number of rows.
    """

    def __init__(self, keys: Iterable[str], num_envs: int, capacity: int) -> None:
        self._keys = tuple(dict.fromkeys(keys))
        self._num_envs = num_envs
        self._capacity = capacity
        self._columns: dict[str, InfoBatch] = {}  # (capacity, N, ...) values, (capacity, N) present

    def read(self, infos: Any, required: np.ndarray, where: Where) -> dict[str, InfoBatch]:
        """Return the requested infos of a step or a reset, by key, without those that no environment has.

        Args:
            infos: Infos that the environment returned.
            required: (N,) bool, whether an environment must have all infos.
            where: Function that describes an environment and its step, for messages.

        Raises:
            ValueError: An info is missing, cannot be recorded, or has another shape or type than before.
        """
        if not self._keys:
            return {}
        if not isinstance(infos, Mapping):
            raise ValueError(  # noqa: TRY004 - the fault is the environment's, not an argument's type
                f"infos must be a dict of arrays, got {type(infos).__name__}; "
                "wrap the recorder in the wrapper that changes infos, not the other way around"
            )
        batches = {key: info_batch(key, infos, required, where) for key in self._keys}
        found = {key: batch for key, batch in batches.items() if batch is not None}
        for key, batch in found.items():
            self._fit(key, batch, where)
        return found

    def write(self, slot: int, batches: Mapping[str, InfoBatch], rows: np.ndarray | None = None) -> None:
        """Copy infos to a row of the columns.

        Args:
            slot: Index of the row.
            batches: Infos that `read` returned.
            rows: (n,) indices of the environments whose infos are copied; None for all.
        """
        at: Any = slot if rows is None else (slot, rows)
        of: Any = slice(None) if rows is None else rows
        for key, column in self._columns.items():
            if key in batches:
                column.values[at] = batches[key].values[of]
                column.present[at] = batches[key].present[of]
            else:
                column.present[at] = False

    def take(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Return the infos of single environments, (n, ...) by key; `take_rows` describes ``index``."""
        return {key: take_rows(column.values, index) for key, column in self._columns.items()}

    def take_first(self, index: np.ndarray) -> Sequence[Mapping[str, np.ndarray]]:
        """Return one dict of infos for each index; () if no infos are requested.

        Args:
            index: (n,) integers, see `take_rows`. A dict has only the infos that the environment returned.
        """
        if not self._keys:
            return ()
        return FirstInfos(
            len(index),
            {
                key: InfoBatch(take_rows(column.values, index), take_rows(column.present, index))
                for key, column in self._columns.items()
            },
        )

    def moved(self, slots: np.ndarray, capacity: int) -> InfoColumns:
        """Return columns with ``capacity`` rows, in which row ``slots[i]`` is a copy of row i."""
        larger = InfoColumns(self._keys, self._num_envs, capacity)
        larger._columns = {
            key: InfoBatch(moved(column.values, slots, capacity), moved(column.present, slots, capacity))
            for key, column in self._columns.items()
        }
        return larger

    def _fit(self, key: str, batch: InfoBatch, where: Where) -> None:
        # Creates the column of ``key``, or converts it to the common dtype of the column and the batch.
        values = batch.values
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = InfoBatch(
                np.zeros((self._capacity, *values.shape), values.dtype),
                np.zeros((self._capacity, self._num_envs), bool),
            )
        if column.values.dtype == values.dtype and column.values.shape[1:] == values.shape:
            return
        before, now = describe_info(column.values[0, 0]), describe_info(values[0])
        if before != now:
            raise ValueError(
                f"info {key!r} must keep its shape and type, got {before} and then {now} "
                f"{where(int(batch.present.argmax()))}"
            )
        concatenate_trees(f"infos/{key}", [column.values[column.present], values[batch.present]])  # exact
        wider = column.values.astype(np.promote_types(column.values.dtype, values.dtype))
        self._columns[key] = InfoBatch(wider, column.present)


class FirstInfos(Sequence[Mapping[str, np.ndarray]]):
    """Sequence of dicts of infos, one per episode, created on access.

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
        """Return one dict, or `FirstInfos` for a slice."""
        if isinstance(key, slice):
            count = len(range(self._count)[key])
            batches = {name: InfoBatch(v[key], present[key]) for name, (v, present) in self._batches.items()}
            return FirstInfos(count, batches)
        i = range(self._count)[key]
        return {name: np.array(v[i]) for name, (v, present) in self._batches.items() if present[i]}
