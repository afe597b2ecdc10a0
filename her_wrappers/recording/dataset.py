"""Dataset: the interface of Minari's datasets, which can be read without importing Minari."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from her_wrappers.recording.episode import Episode
from her_wrappers.trees import map_tree


@runtime_checkable
class Dataset(Protocol):
    """A dataset with the method of ``minari.MinariDataset`` that returns its episodes."""

    def iterate_episodes(self) -> Iterable[Any]:
        """Return the episodes, which have the attributes of ``minari.EpisodeData``."""


def episodes_of(dataset: Dataset) -> Iterator[Episode]:
    """Yield the episodes of a dataset; infos with T + 1 rows for T steps begin with the one of the reset."""
    for data in dataset.iterate_episodes():
        steps = len(data.rewards)
        infos = _flat(data.infos or {})
        for key, rows in infos.items():
            if len(rows) not in {steps, steps + 1}:
                raise ValueError(
                    f"info {key!r} of episode {data.id} must have {steps} or {steps + 1} rows, "
                    f"got {len(rows)}"
                )
        yield Episode(
            observations=map_tree(np.asarray, data.observations),
            actions=map_tree(np.asarray, data.actions),
            rewards=np.asarray(data.rewards),
            terminated=bool(data.terminations[-1]),
            truncated=bool(data.truncations[-1]),
            infos={key: rows[-steps:] for key, rows in infos.items()},
            reset_info={key: np.asarray(rows[0]) for key, rows in infos.items() if len(rows) > steps},
        )


def _flat(infos: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Return nested infos as one dict whose keys are paths with slashes."""
    flat: dict[str, np.ndarray] = {}
    for key, value in infos.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}/")
        else:
            rows = np.asarray(value)
            if rows.dtype == object:  # strings from h5py
                texts = [part.decode() if isinstance(part, bytes) else str(part) for part in rows.ravel()]
                rows = np.array(texts).reshape(rows.shape)
            flat[prefix + key] = rows
    return flat
