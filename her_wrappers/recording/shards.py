"""Shards: many episodes in one file of arrays, which ``numpy.load`` can read.

The arrays are those of `Episodes`, with names such as ``observations/achieved_goal`` and
``infos/is_success``. The header of the file has the structure of the trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from her_wrappers.files.reading import ArrayFile, CorruptFileError
from her_wrappers.files.writing import require_storable, write_arrays
from her_wrappers.recording.episodes import Episodes
from her_wrappers.spaces import SpaceSpec
from her_wrappers.trees import STRINGS, leaf_arrays

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from pathlib import Path

    from her_wrappers.files import Json
    from her_wrappers.trees import Tree

KIND = "episodes"
VERSION = 1

COLUMNS = ("rewards", "lengths", "terminated", "truncated")

SHARD_BYTES = 2**26
"""Approximate size in bytes at which a shard is written, since episodes of images would fill the memory."""


class PendingEpisodes:
    """Episodes with equal `shard_key` that are not in a shard yet: an immutable linked list.

    Args:
        last: Episodes that were added last.
        before: Episodes that were added before, or None.

    Attributes:
        num_episodes: Number of episodes.
        num_steps: Number of steps of all episodes.
        step_size: Mean size of a step of the first episodes, in bytes.
    """

    def __init__(self, last: Episodes, before: PendingEpisodes | None = None) -> None:
        self.last = last
        self.before = before
        self.num_episodes: int = len(last) + (before.num_episodes if before else 0)
        self.num_steps: int = last.num_steps + (before.num_steps if before else 0)
        self.step_size: float = before.step_size if before else _size(last) / last.num_steps

    def steps_per_shard(self, limit: int) -> int:
        """Return the number of steps with which a shard is full, at most ``limit``."""
        return max(1, min(limit, int(SHARD_BYTES / max(1, self.step_size))))

    def take_shard(self, limit: int) -> tuple[Episodes, PendingEpisodes | None]:
        """Return the episodes of the next shard, and the episodes that are still pending, or None.

        Args:
            limit: Number of steps with which a shard is full. The last episode of the shard may exceed it.
        """
        parts: list[Episodes] = []
        pending: PendingEpisodes | None = self
        while pending is not None:
            parts.append(pending.last)
            pending = pending.before
        joined = Episodes.joined(parts[::-1])
        end = max(1, int(np.searchsorted(joined.ends, self.steps_per_shard(limit))))
        return joined[:end], PendingEpisodes(joined[end:]) if end < len(joined) else None


def _size(episodes: Episodes) -> int:
    """Return the size of the arrays in bytes."""
    trees = (episodes.observations, episodes.actions, episodes.infos, episodes.rewards)
    return sum(leaf.nbytes for tree in trees for leaf in leaf_arrays(tree))


def shard_key(episodes: Episodes) -> Hashable:
    """Return the dtype of rewards, and the keys, shapes and dtypes of infos, which are equal in a shard.

    Strings may differ in length.
    """
    return episodes.rewards.dtype, frozenset(
        (key, values.shape[1:], values.dtype.kind if values.dtype.kind in STRINGS else values.dtype)
        for key, values in episodes.infos.items()
    )


def specs_of(episodes: Episodes) -> tuple[SpaceSpec, SpaceSpec]:
    """Return the leaves of the observations and actions of episodes."""
    observations = SpaceSpec.of_rows("observation_space", episodes.observations)
    return observations, SpaceSpec.of_rows("action_space", episodes.actions)


def write_shard(path: Path, episodes: Episodes, labels: Mapping[str, Json]) -> int:
    """Write a shard; the file is complete or absent.

    Args:
        path: Path of the file.
        episodes: Episodes to write.
        labels: JSON values that `read_labels` returns.

    Returns:
        The checksum of the file.

    Raises:
        InUseError: Another writer writes the file.
        OSError: The file cannot be written.
        TypeError: An array has elements that are not numbers, bools or strings.
        ValueError: A name or the shape of an array cannot be stored.
    """
    arrays, trees = _as_arrays(episodes)
    return write_arrays(path, arrays, {"labels": dict(labels), **trees}, kind=KIND, version=VERSION)


def read_shard(path: Path, checksum: int | None = None) -> Episodes:
    """Read the episodes of a shard.

    Args:
        path: Path of the file.
        checksum: Checksum that `write_shard` returned; None to accept any checksum.

    Raises:
        CorruptFileError: The file is damaged, or has another checksum.
        OSError: The file cannot be read.
    """
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        if checksum not in {None, file.checksum}:
            raise CorruptFileError(f"{path} has another checksum than the manifest lists")
        header, arrays = file.header, file.read_all()
    try:
        return _as_episodes(header, arrays)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"{path} is damaged: the arrays do not form valid episodes ({error})"
        ) from error


def _as_episodes(header: dict[str, Json], arrays: dict[str, np.ndarray]) -> Episodes:
    # Returns the episodes that `_as_arrays` described.
    trees: dict[str, Any] = {
        name: _build(header[name], arrays) for name in ("observations", "actions", "infos")
    }
    columns: dict[str, Any] = {name: arrays.pop(name) for name in COLUMNS}
    resets = _build_reset_infos(header["reset_infos"], arrays, len(columns["lengths"]))
    if arrays or not isinstance(trees["infos"], dict):
        raise ValueError(f"unexpected arrays {', '.join(arrays)}, or infos are not a dict")
    return Episodes(**trees, **columns, reset_infos=resets)


def read_labels(path: Path) -> tuple[dict[str, Json], int]:
    """Return the labels and the checksum of a shard.

    Raises:
        CorruptFileError: The file is damaged.
        OSError: The file cannot be read.
    """
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        labels = file.header.get("labels")
        if not isinstance(labels, dict):
            raise CorruptFileError(f"{path} is damaged: the header has no labels")
        return labels, file.checksum


def require_room(path: Path, num_episodes: int, num_steps: int) -> None:
    """Raise an error unless a shard has at least as many bytes as episodes, and as many bytes as steps.

    Args:
        path: Path of the shard.
        num_episodes: Number of episodes that the manifest lists for the shard.
        num_steps: Number of steps that the manifest lists for the shard.

    Raises:
        CorruptFileError: The file is damaged, or too short.
        OSError: The file cannot be read.
    """
    size = path.stat().st_size
    if size < max(num_episodes, num_steps):
        read_shard(path)
        raise CorruptFileError(
            f"{path} has {size} bytes, too few for {num_episodes} episodes with {num_steps} steps together"
        )


def require_storable_episodes(episodes: Episodes) -> None:
    """Raise an error unless a shard can store the episodes.

    Raises:
        TypeError: An array has elements that are not numbers, bools or strings, or a key is not a string.
        ValueError: An array has too many axes, or a key cannot be stored.
    """
    for name, array in _as_arrays(episodes)[0].items():
        require_storable(name, array.dtype, array.ndim)


def require_storable_space(spec: SpaceSpec) -> None:
    """Raise an error unless a shard can store elements of a space.

    Args:
        spec: Leaves of the space.

    Raises:
        TypeError: A key is not a string.
        ValueError: An array has too many axes, or a key cannot be stored.
    """
    positions: dict[str, np.ndarray] = {}
    _flatten(spec.structure, spec.name, positions)
    for array_name, position in positions.items():
        leaf = spec.leaves[int(position)]
        require_storable(array_name, leaf.dtype, len(leaf.shape) + 1)


def _as_arrays(episodes: Episodes) -> tuple[dict[str, np.ndarray], dict[str, Json]]:
    """Return the arrays of a shard, and the structure of the trees for the header."""
    arrays: dict[str, np.ndarray] = {name: getattr(episodes, name) for name in COLUMNS}
    return arrays, {
        "observations": _flatten(episodes.observations, "observations", arrays),
        "actions": _flatten(episodes.actions, "actions", arrays),
        "infos": _flatten(episodes.infos, "infos", arrays),
        "reset_infos": _flatten_reset_infos(episodes.reset_infos, arrays),
    }


def _flatten(tree: Tree, name: str, arrays: dict[str, np.ndarray]) -> Json:
    """Add the leaves to ``arrays``; return the tree with array names as leaves, and with lists for tuples."""
    if isinstance(tree, dict):
        return {key: _flatten(part, _array_name(name, key), arrays) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return [_flatten(part, f"{name}/{number}", arrays) for number, part in enumerate(tree)]
    arrays[name] = np.asarray(tree)
    return name


def _build(described: Json, arrays: dict[str, np.ndarray]) -> Any:
    """Return the tree that `_flatten` described, and remove its leaves from ``arrays``."""
    if isinstance(described, dict):
        return {key: _build(part, arrays) for key, part in described.items()}
    if isinstance(described, list):
        return tuple(_build(part, arrays) for part in described)
    return arrays.pop(described)


def _flatten_reset_infos(infos: Sequence[Mapping[str, Any]], arrays: dict[str, np.ndarray]) -> Json:
    """Add reset infos to ``arrays``: for each key, dtype and shape an array of values and one of episodes."""
    groups: dict[tuple[str, str, tuple[int, ...]], list[tuple[int, np.ndarray]]] = {}
    for number, info in enumerate(infos):
        for key, value in info.items():
            array = np.asarray(value)
            groups.setdefault((key, array.dtype.str, array.shape), []).append((number, array))
    described = []
    for number, ((key, _, _), members) in enumerate(groups.items()):
        name = f"{_array_name('reset_infos', key)}/{number}"
        arrays[name] = np.stack([array for _, array in members])
        arrays[f"{name}/episodes"] = np.array([episode for episode, _ in members])
        described.append({"key": key, "values": name, "episodes": f"{name}/episodes"})
    return described if infos else None


def _build_reset_infos(described: Json, arrays: dict[str, np.ndarray], count: int) -> Any:
    """Return the reset infos of ``count`` episodes that `_flatten_reset_infos` described."""
    if described is None:
        return ()
    infos: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    for group in described:
        values, episodes = arrays.pop(group["values"]), arrays.pop(group["episodes"])
        for episode, value in zip(episodes, values, strict=True):
            infos[episode][str(group["key"])] = np.array(value)
    return infos


def _array_name(name: str, key: str) -> str:
    # Returns the name of the arrays under a key.
    if not isinstance(key, str):
        raise TypeError(f"{name} must have keys that are strings, got {key!r}")
    try:
        return f"{name}/{quote(key, safe='')}"
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} must have keys that can be encoded as UTF-8, got {key!r}") from error
