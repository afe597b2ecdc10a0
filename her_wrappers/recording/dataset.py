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
    """Yield the episodes of a dataset.

    Args:
        dataset: The dataset. Infos with one row per state, T + 1 for T steps, begin with that of the reset.

    Raises:
        ValueError: An episode is not valid, or an info has neither T nor T + 1 rows for T steps.
    """
    for data in dataset.iterate_episodes():
        yield _as_episode(data)


def _as_episode(data: Any) -> Episode:
    steps = len(data.rewards)
    infos: dict[str, np.ndarray] = {}
    resets: dict[str, np.ndarray] = {}
    for key, rows in _flat(data.infos or {}).items():
        if len(rows) not in {steps, steps + 1}:
            raise ValueError(
                f"info {key!r} of episode {data.id} must have {steps} or {steps + 1} rows, got {len(rows)}"
            )
        infos[key] = rows[-steps:]
        if len(rows) == steps + 1:
            resets[key] = np.asarray(rows[0])
    return Episode(
        observations=map_tree(np.asarray, data.observations),
        actions=map_tree(np.asarray, data.actions),
        rewards=np.asarray(data.rewards),
        terminated=bool(data.terminations[-1]),
        truncated=bool(data.truncations[-1]),
        infos=infos,
        reset_info=resets,
    )


def _flat(infos: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Return nested infos as one dict whose keys are paths with slashes."""
    flat: dict[str, np.ndarray] = {}
    for key, value in infos.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}/")
        else:
            flat[prefix + key] = _decoded(np.asarray(value))
    return flat


def _decoded(rows: np.ndarray) -> np.ndarray:
    """Convert an array of objects to an array of strings, since h5py returns strings as objects."""
    if rows.dtype != object:
        return rows
    texts = [part.decode() if isinstance(part, bytes) else str(part) for part in rows.ravel()]
    return np.array(texts).reshape(rows.shape)
