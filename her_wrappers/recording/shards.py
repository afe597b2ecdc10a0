"""Shards: many episodes in one file of arrays.

The arrays are those of `Episodes`, end to end, under names such as ``observations/achieved_goal`` and
``infos/is_success``, so that a shard makes sense to whoever opens it with ``numpy.load``. The header says how
they go together.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from gymnasium import spaces

from her_wrappers.files.layout import require_storable
from her_wrappers.files.reading import ArrayFile, CorruptFileError
from her_wrappers.files.writing import write_arrays
from her_wrappers.recording.episodes import Episodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from her_wrappers.files.layout import Json
    from her_wrappers.trees import Tree

KIND = "episodes"
VERSION = 1

COLUMNS = ("rewards", "lengths", "terminated", "truncated")


def write_shard(path: Path, episodes: Episodes, labels: Mapping[str, Json]) -> int:
    """Write episodes to a file, whole or not at all.

    Args:
        path: The file.
        episodes: What to write.
        labels: JSON that `read_labels` gives back.

    Returns:
        The file's checksum.

    Raises:
        OSError: The file cannot be written.
        TypeError: An array holds neither numbers nor bools nor strings.
    """
    arrays, trees = _as_arrays(episodes)
    return write_arrays(path, arrays, {"labels": dict(labels), **trees}, kind=KIND, version=VERSION)


def require_writable(episodes: Episodes) -> None:
    """Refuse episodes that `write_shard` could not write, or `read_shard` not read.

    Raises:
        TypeError: An array holds neither numbers nor bools nor strings, or a key is no string.
        ValueError: An array has too many axes, or a key is too long or none for files.
    """
    for name, array in _as_arrays(episodes)[0].items():
        require_storable(name, array.dtype, array.ndim)


def require_writable_space(name: str, space: spaces.Space[Any]) -> None:
    """Refuse a space whose elements `write_shard` could not write, or `read_shard` not read.

    Raises:
        TypeError: A key is no string.
        ValueError: An array has too many axes, or a key is too long or none for files.
    """
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            require_writable_space(array_name(name, key), part)
    elif isinstance(space, spaces.Tuple):
        for number, part in enumerate(space):
            require_writable_space(f"{name}/{number}", part)
    else:
        require_storable(name, np.dtype(space.dtype), len(space.shape or ()) + 1)


def _as_arrays(episodes: Episodes) -> tuple[dict[str, np.ndarray], dict[str, Json]]:
    """Return the arrays of a shard, and how the header says that they go together."""
    arrays: dict[str, np.ndarray] = {name: getattr(episodes, name) for name in COLUMNS}
    return arrays, {
        "observations": _take_apart(episodes.observations, "observations", arrays),
        "actions": _take_apart(episodes.actions, "actions", arrays),
        "infos": _take_apart(episodes.infos, "infos", arrays),
        "reset_infos": _take_infos_apart(episodes.reset_infos, arrays),
    }


def read_shard(path: Path, checksum: int | None = None) -> Episodes:
    """Read the episodes of a file.

    Args:
        path: The file.
        checksum: What `write_shard` returned, if that is known.

    Raises:
        CorruptFileError: The file is damaged, or another one than the checksum is of.
        OSError: It cannot be read.
    """
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        if checksum not in {None, file.checksum}:
            raise CorruptFileError(f"{path} is another file than the one that was written")
        header, arrays = file.header, file.read_all()
    try:
        return _assemble(header, arrays)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise CorruptFileError(f"{path} is damaged: its arrays make no episodes ({error})") from error


def _assemble(header: dict[str, Json], arrays: dict[str, np.ndarray]) -> Episodes:
    """Put the arrays together as the header says.

    Raises:
        ValueError: An array is left over, or they make no episodes.
    """
    trees: dict[str, Any] = {
        name: _put_together(header[name], arrays) for name in ("observations", "actions", "infos")
    }
    columns: dict[str, Any] = {name: arrays.pop(name) for name in COLUMNS}
    resets = _put_infos_together(header["reset_infos"], arrays, len(columns["lengths"]))
    if arrays or not isinstance(trees["infos"], dict):
        raise ValueError(f"there are other arrays, or no infos: {', '.join(arrays)}")
    return Episodes(**trees, **columns, reset_infos=resets)


def read_labels(path: Path) -> tuple[dict[str, Json], int]:
    """Return the labels and the checksum of a file of episodes.

    Raises:
        CorruptFileError: The file is damaged.
        OSError: It cannot be read.
    """
    with ArrayFile(path, kind=KIND, version=VERSION) as file:
        labels = file.header.get("labels")
        if not isinstance(labels, dict):
            raise CorruptFileError(f"{path} is damaged: it has no labels")
        return labels, file.checksum


def _take_apart(tree: Tree, name: str, arrays: dict[str, np.ndarray]) -> Json:
    """Put the leaves into ``arrays``; return the tree with their names in their places, tuples as lists."""
    if isinstance(tree, dict):
        return {key: _take_apart(part, array_name(name, key), arrays) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return [_take_apart(part, f"{name}/{number}", arrays) for number, part in enumerate(tree)]
    arrays[name] = np.asarray(tree)
    return name


def array_name(name: str, key: str) -> str:
    """Return the name of the arrays under a key.

    Raises:
        TypeError: The key is no string.
        ValueError: It has a character that cannot be written.
    """
    if not isinstance(key, str):
        raise TypeError(f"{name} must have keys that are strings, got {key!r}")
    try:
        return f"{name}/{quote(key, safe='')}"
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} must have keys that UTF-8 can write, got {key!r}") from error


def _put_together(described: Json, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(described, dict):
        return {key: _put_together(part, arrays) for key, part in described.items()}
    if isinstance(described, list):
        return tuple(_put_together(part, arrays) for part in described)
    return arrays.pop(described)


def _take_infos_apart(infos: Sequence[Mapping[str, Any]], arrays: dict[str, np.ndarray]) -> Json:
    """Put reset infos into ``arrays``: those of one key, dtype and shape together, with their episodes."""
    groups: dict[tuple[str, str, tuple[int, ...]], list[tuple[int, np.ndarray]]] = {}
    for number, info in enumerate(infos):
        for key, value in info.items():
            array = np.asarray(value)
            groups.setdefault((key, array.dtype.str, array.shape), []).append((number, array))
    described = []
    for number, ((key, _, _), members) in enumerate(groups.items()):
        name = f"{array_name('reset_infos', key)}/{number}"
        arrays[name] = np.stack([array for _, array in members])
        arrays[f"{name}/episodes"] = np.array([episode for episode, _ in members])
        described.append({"key": key, "values": name, "episodes": f"{name}/episodes"})
    return described if infos else None


def _put_infos_together(described: Json, arrays: dict[str, np.ndarray], count: int) -> Any:
    if described is None:
        return ()
    infos: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    for group in described:
        values, episodes = arrays.pop(group["values"]), arrays.pop(group["episodes"])
        for episode, value in zip(episodes, values, strict=True):
            infos[episode][str(group["key"])] = np.array(value)
    return infos
