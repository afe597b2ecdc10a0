"""Dataset: episodes of another's making, known by what they look like.

Minari's datasets look like this. To read one takes nothing of Minari, so that all who take episodes may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from her_wrappers.recording.episode import Episode
from her_wrappers.trees import map_tree


@runtime_checkable
class Dataset(Protocol):
    """What a ``minari.MinariDataset`` can do."""

    def iterate_episodes(self) -> Iterable[Any]:
        """Go through the episodes, which are like ``minari.EpisodeData``."""


def episodes_of(dataset: Dataset) -> Iterator[Episode]:
    """Read the episodes, one at a time.

    Raises:
        ValueError: One is none by our terms, or an info has neither a row a step nor a row a state.
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
    """Return nested infos as one dict, whose keys have slashes."""
    flat: dict[str, np.ndarray] = {}
    for key, value in infos.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}/")
        else:
            flat[prefix + key] = _decoded(np.asarray(value))
    return flat


def _decoded(rows: np.ndarray) -> np.ndarray:
    """Return strings, which HDF5 gives back as bytes in an array of objects, as an array of strings."""
    if rows.dtype != object:
        return rows
    texts = [part.decode() if isinstance(part, bytes) else str(part) for part in rows.ravel()]
    return np.array(texts).reshape(rows.shape)
