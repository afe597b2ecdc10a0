"""Infos: the columns of infos that rewards need, for those rewards that need them.

Stored infos describe what happened under the recorded goal. A reward may read the state from them, such as a
force or a cost, but not what the goal decides, such as ``is_success``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from her_wrappers.replay.arrays import read_only

InfoFormat = Literal["list", "columns"]

Infos: TypeAlias = Sequence[Mapping[str, Any]] | Mapping[str, np.ndarray]
"""What goal functions get: a dict for each row, or one dict of columns."""


class InfoLayout:
    """The columns of infos that a buffer keeps, as one record a step.

    Args:
        keys: Which entries; without any, goal functions get empty dicts and nothing is stored.
        form: ``"list"`` of dicts, or a dict of ``"columns"``.

    Raises:
        ValueError: There is no such form.

    Attributes:
        keys: Which entries.
        form: In which goal functions get them.
        dtype: Of a record; known from the first episode on, and widened where later ones need it.
    """

    def __init__(self, keys: Sequence[str], form: InfoFormat) -> None:
        if form not in get_args(InfoFormat):
            raise ValueError(f"unknown info_format {form!r}; choose from 'list', 'columns'")
        self.keys = tuple(keys)
        self.dtype: np.dtype[Any] | None = None
        self.form = form

    def encode(self, infos: Mapping[str, np.ndarray], length: int) -> np.ndarray:
        """Return the infos of ``length`` steps as records.

        Raises:
            ValueError: An entry is missing, is not made of numbers, or has another shape than in the first
                episode.
        """
        columns = {key: self._column(key, infos, length) for key in self.keys}
        fields = [(key, self._dtype(key, column), column.shape[1:]) for key, column in columns.items()]
        records = np.zeros(length, np.dtype(fields, align=True))
        for key, column in columns.items():
            records[key] = column
        return records

    def _dtype(self, key: str, column: np.ndarray) -> np.dtype[Any]:
        # Numbers that are whole at first, such as a cost of 0, may become others.
        return column.dtype if self.dtype is None else np.result_type(column, self.dtype[key].base)

    def _column(self, key: str, infos: Mapping[str, np.ndarray], length: int) -> np.ndarray:
        if key not in infos:
            raise ValueError(
                f"infos/{key} is missing in the episode; record it with EpisodeRecorder(info_keys=[{key!r}])"
            )
        column = np.asarray(infos[key])
        if column.dtype.kind not in "biuf":
            raise ValueError(f"infos/{key} of the episode must hold numbers, got dtype {column.dtype}")
        shape = (length, *(column.shape[1:] if self.dtype is None else self.dtype[key].shape))
        if column.shape != shape:
            raise ValueError(f"infos/{key} of the episode must have shape {shape}, got {column.shape}")
        return column

    def rows(self, records: np.ndarray | None, count: int) -> Infos:
        """Return the infos of the first ``count`` steps in the form that goal functions get."""
        if records is None:
            return {} if self.form == "columns" else [{}] * count
        columns = {key: read_only(records[key], count) for key in self.keys}
        if self.form == "columns":
            return columns
        return [dict(zip(self.keys, row, strict=True)) for row in zip(*columns.values(), strict=True)]
