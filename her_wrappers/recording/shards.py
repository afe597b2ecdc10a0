"""Shards: the fields of `Episodes` in one file of arrays, such as ``observations/achieved_goal``."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from her_wrappers.data import Json
from her_wrappers.data.arrays import ArrayFile, CorruptFileError, as_corrupt, require_storable, write_arrays
from her_wrappers.data.trees import STRINGS, Tree, leaf_arrays
from her_wrappers.recording.episodes import Episodes

KIND = "episodes"
VERSION = 2

TREES = ("observations", "actions", "infos")
COLUMNS = ("rewards", "lengths", "terminated", "truncated")

SHARD_BYTES = 2**26  # size at which a shard is written, since episodes of images would fill the memory


class Pending:
    """Episodes that are not in a shard yet; after an interruption, their counted size may be too small."""

    def __init__(self, parts: Sequence[Episodes] = ()) -> None:
        self.parts: list[Episodes] = []
        self._num_steps = self._nbytes = 0
        self.add(parts)

    def add(self, parts: Sequence[Episodes]) -> None:
        """Append episodes: all of them or, after an interruption, perhaps none."""
        self.parts += parts
        for part in parts:
            self._num_steps += part.num_steps
            trees = part.observations, part.actions, part.rewards, part.infos
            self._nbytes += sum(leaf.nbytes for leaf in leaf_arrays(trees))

    def is_full(self, shard_steps: int) -> bool:
        """Return whether the episodes fill a shard of ``shard_steps`` steps, or of fewer that are large."""
        return self._num_steps >= self._shard_size(shard_steps)

    def next_shard(self, shard_steps: int) -> tuple[list[Episodes], Pending]:
        """Return (episodes with equal dtypes for a shard, beginning with the oldest; all other episodes)."""
        size = self._shard_size(shard_steps)
        shard, rest = [], []
        for part in self.parts:
            fits = size > 0 and _dtypes(part) == _dtypes(self.parts[0])
            cut = int(np.searchsorted(part.ends, size)) if fits else 0  # episodes that fill the shard
            if fits:
                shard.append(part[:cut])
                size -= part.num_steps
            if cut < len(part):
                rest.append(part[cut:])
        return shard, Pending(rest)

    def _shard_size(self, shard_steps: int) -> int:
        return max(1, min(shard_steps, SHARD_BYTES * self._num_steps // max(1, self._nbytes)))


def _dtypes(episodes: Episodes) -> Hashable:
    """Return the dtype of rewards, and keys, shapes and dtypes of infos, without the lengths of strings."""
    return episodes.rewards.dtype, frozenset(
        (key, values.shape[1:], values.dtype.kind if values.dtype.kind in STRINGS else values.dtype)
        for key, values in episodes.infos.items()
    )


def require_storable_episodes(episodes: Episodes) -> None:
    """Raise TypeError or ValueError unless a shard can store the episodes."""
    arrays = _flatten_reset_infos(episodes.reset_infos)
    for name in TREES:
        flatten_tree(getattr(episodes, name), name, arrays)
    for name, array in arrays.items():
        require_storable(name, array.dtype)


def write_shard(path: Path, parts: Sequence[Episodes], labels: Mapping[str, Json]) -> None:
    """Write episodes whose arrays have equal dtypes, and a header with ``labels``, such as a number."""
    flat = []
    for part in parts:
        arrays: dict[str, np.ndarray] = {name: getattr(part, name) for name in COLUMNS}
        structure = {name: flatten_tree(getattr(part, name), name, arrays) for name in TREES}
        flat.append(arrays)

    def joined() -> Iterator[tuple[str, np.ndarray]]:
        for name, first in flat[0].items():
            dtype = None if first.dtype.kind in STRINGS else first.dtype  # keeps the byte order too
            yield name, np.concatenate([arrays[name] for arrays in flat], dtype=dtype)
        resets = [info for part in parts for info in part.reset_infos or [{}] * len(part)]
        yield from _flatten_reset_infos(resets).items()

    write_arrays(path, joined(), {**labels, **structure}, kind=KIND, version=VERSION)


def read_labels(path: Path, archive: str, number: int) -> tuple[int, int]:
    """Return the numbers of episodes and steps in a shard; the errors are those of `read_shard`."""
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        header = file.header
    if header.get("archive") != archive:
        raise CorruptFileError(f"{path} belongs to another archive; move it out of this folder")
    if (labeled := header.get("number")) != number:
        fix = f"rename it to shard-{labeled!s:0>6}.npz or, if this file exists, move it elsewhere"
        raise CorruptFileError(f"{path} was renamed: it is shard {labeled} of this archive; {fix}")
    counts: tuple[Any, Any] = (header.get("episodes"), header.get("steps"))
    if not all(type(each) is int and 0 < each <= path.stat().st_size for each in counts):
        raise CorruptFileError(f"{path} is damaged: its header has {counts} episodes and steps")
    return counts


def read_shard(path: Path, archive: str, number: int) -> Episodes:
    """Return the episodes of the shard ``number`` of ``archive``, or raise CorruptFileError or OSError."""
    counts = read_labels(path, archive, number)
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        header, arrays = file.header, {name: file.read(name) for name in file.arrays}
    with as_corrupt(f"{path} is damaged: the arrays do not form valid episodes"):
        trees: dict[str, Any] = {name: build_tree(header[name], arrays) for name in TREES}
        columns: dict[str, Any] = {name: arrays.pop(name) for name in COLUMNS}
        resets: list[dict[str, np.ndarray]] = [{} for _ in columns["lengths"]]
        for name, values in arrays.items():
            folder, key, *_ = name.split("/")
            if folder == "reset_infos":
                for episode, value in zip(arrays[f"episodes_of_{name}"], values, strict=True):
                    resets[episode][unquote(key)] = np.array(value)
        episodes = Episodes(**trees, **columns, reset_infos=resets)
        if (len(episodes), episodes.num_steps) != counts:
            raise ValueError(f"the header has {counts} episodes and steps, but the arrays differ")
        return episodes


def flatten_tree(tree: Tree, name: str, leaves: dict[str, np.ndarray]) -> Json:
    """Add the arrays of a tree to ``leaves``; return their names as JSON, with lists instead of tuples."""
    if isinstance(tree, dict):
        return {key: flatten_tree(part, _name(name, key), leaves) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return [flatten_tree(part, f"{name}/{number}", leaves) for number, part in enumerate(tree)]
    leaves[name] = tree
    return name


def build_tree(described: Json, arrays: dict[str, np.ndarray]) -> Any:
    """Return the tree that `flatten_tree` described, and remove its leaves from ``arrays``."""
    if isinstance(described, dict):
        return {key: build_tree(part, arrays) for key, part in described.items()}
    if isinstance(described, list):
        return tuple(build_tree(part, arrays) for part in described)
    return arrays.pop(described)


def _flatten_reset_infos(infos: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Return for each key, dtype and shape two arrays: the values, and the numbers of their episodes."""
    groups: dict[tuple[str, str, tuple[int, ...]], list[tuple[int, np.ndarray]]] = {}
    for number, info in enumerate(infos):
        for key, value in info.items():
            array = np.asarray(value)
            groups.setdefault((key, array.dtype.str, array.shape), []).append((number, array))
    arrays = {}
    for number, ((key, _, _), members) in enumerate(groups.items()):
        name = f"{_name('reset_infos', key)}/{number}"
        arrays[name] = np.stack([array for _, array in members])
        arrays[f"episodes_of_{name}"] = np.array([episode for episode, _ in members])
    return arrays


def _name(name: str, key: str) -> str:
    """Return ``name``/``key``, the name of the array of a dict entry; slashes in ``key`` are escaped."""
    if not isinstance(key, str):
        raise TypeError(f"the keys of {name} must be strings, got {key!r}")
    return f"{name}/{quote(key, safe='')}"
