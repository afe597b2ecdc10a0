"""Infos of single and of vector environments: functions that read Gymnasium's vector infos.

An info ``k`` of N environments is an array ``infos["k"]`` with one row per environment. The mask
``infos["_k"]``, (N,) bool, marks the environments that have the info; without a mask, all have it. In mode
SAME_STEP, ``infos["final_obs"]`` has the last observations of the episodes that ended, as an array of dicts
(Gymnasium's vector environments) or a dict of arrays (other environments), and ``infos["final_info"]`` has
the last infos of these episodes. Infos that are a list of N dicts, as in Stable-Baselines3, are converted by
`info_columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from her_wrappers.trees import NUMBERS, STRINGS, map_tree, try_as_array

FINAL_NAMES = "final_obs", "final_observation", "terminal_observation"
"""Keys of the last observation in infos: in Gymnasium, Gymnasium before 1.1, and Stable-Baselines3."""

Where: TypeAlias = Callable[[int], str]
"""Function from an environment i to its place in messages, such as "at step 7 of environment 3"."""


class InfoBatch(NamedTuple):
    """The values of one info key in all N environments."""

    values: np.ndarray  # (N, ...); the rows of environments without the info have no meaning
    present: np.ndarray  # (N,) bool, the environments that have the info


def as_info(key: str, value: Any, where: Where, row: int) -> np.ndarray:
    """Return an info of one environment as a new array of numbers or strings, or raise ValueError."""
    array = np.array(try_as_array(value))
    if array.dtype.kind not in NUMBERS + STRINGS:
        raise ValueError(f"info {key!r} must be numbers or strings of one shape, got {value!r} {where(row)}")
    return array


def missing_info(key: str, where: str, has: object) -> str:
    """Return the error message for a step without the info ``key``; ``has`` are the keys of its infos."""
    repair = "; her_wrappers.repairs.BooleanSuccess adds it" if key == "is_success" else ""
    return f"info has no {key!r} {where}; it has {has}{repair}"


def describe_info(value: np.ndarray) -> str:
    """Return the kind and shape of an info, which must be the same for all values of one info."""
    return f"{'strings' if value.dtype.kind in STRINGS else 'numbers'} of shape {value.shape}"


def info_mask(infos: Mapping[str, Any], key: str, num_envs: int) -> np.ndarray:
    """Return which environments have an info, (N,) bool; raise ValueError if its mask is not N bools."""
    mask = np.asarray(infos.get(f"_{key}", np.ones(num_envs, bool)))
    if mask.shape != (num_envs,) or mask.dtype != np.bool_:
        raise ValueError(f"infos['_{key}'] must be ({num_envs},) bools, got {infos[f'_{key}']!r}")
    return mask if key in infos else np.zeros(num_envs, bool)


def info_batch(key: str, infos: Mapping[str, Any], required: np.ndarray, where: Where) -> InfoBatch | None:
    """Return one info of all environments, or None if no environment has it.

    Raise ValueError if an environment in ``required``, (N,) bool, does not have the info, if its mask is not
    N bools, or if its values are not numbers or strings of one shape, with a row for each environment.
    """
    count = len(required)
    present = info_mask(infos, key, count)
    missing = np.flatnonzero(required & ~present)
    if missing.size:
        has = sorted(name for name in infos if not name.startswith("_"))
        raise ValueError(missing_info(key, where(int(missing[0])), has))
    if not present.any():
        return None
    values = try_as_array(infos[key])
    if values.shape[:1] != (count,) or values.dtype.kind not in NUMBERS + STRINGS + "O":
        raise ValueError(
            f"info {key!r} must be numbers or strings with a row for each of {count} environments, "
            f"got {infos[key]!r} {where(int(present.argmax()))}"
        )
    if values.dtype == object:
        values = _unpack(key, values, present, where)
    return InfoBatch(values, present)


def info_row(infos: Any, i: int, num_envs: int) -> dict[str, Any]:
    """Return the info of environment ``i``: the keys whose mask is set, or that have no valid mask.

    A value that has no row per environment, such as a total number of steps, belongs to every environment.
    Keys that begin with ``_`` or ``final_`` are left out. If the infos are not a dict, the result is empty.
    """
    found: dict[str, Any] = {}
    for key, value in infos.items() if isinstance(infos, dict) else ():
        if str(key).startswith(("_", "final_")) or not _belongs_to(infos, key, i, num_envs):
            continue
        if isinstance(value, dict):
            found[key] = info_row(value, i, num_envs)
        else:
            row = value[i] if _has_rows(value, num_envs) else value
            found[key] = row.item() if row is not value and isinstance(row, np.generic) else row
    return found


def final_observations(infos: Any) -> Any:
    """Return the last observations of the episodes that ended, or None if the infos have none."""
    return infos[name] if (name := _final_name(infos)) else None


def final_mask(infos: Any, num_envs: int) -> np.ndarray:
    """Return which environments have a last observation, (N,) bool."""
    name = _final_name(infos)
    mask: Any = infos.get(f"_{name}", True) if name else False
    return np.broadcast_to(np.asarray(mask), num_envs)


def _final_name(infos: Any) -> str | None:
    names = FINAL_NAMES if isinstance(infos, Mapping) else ()
    return next((name for name in names if infos.get(name) is not None), None)


def info_columns(infos: Any, num_envs: int, keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the infos ``keys`` of N environments, also of their last states, as one dict of arrays.

    Infos in Gymnasium's format are returned as they are, and None as an empty dict. A list of N dicts, one of
    each environment, is converted. If an episode ended, such a dict has its last observation and infos under
    ``final_obs`` and ``final_info``; or, as in Stable-Baselines3, the dict itself contains the last infos,
    and the last observation under ``terminal_observation``. Raise ValueError for other types and for a list
    of another length.
    """
    if isinstance(infos, Mapping) or infos is None:
        return infos or {}
    if not isinstance(infos, Sequence) or len(infos) != num_envs:
        length = f" of length {len(infos)}" if isinstance(infos, Sized) else ""
        raise ValueError(
            f"info must be a list of {num_envs} dicts, or one dict of arrays, "
            f"got {type(infos).__name__}{length}"
        )
    last = [final_observations(info) for info in infos]
    columns = _columns(infos, keys)
    if any(each is not None for each in last):
        ended = [{} if each is None else {"final_obs": each} for each in last]
        columns |= _columns(ended, ["final_obs"])
        columns["final_info"] = _columns([info.get("final_info", info) for info in infos], keys)
    return columns


def _columns(infos: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> dict[str, Any]:
    """Return an array of objects and its mask for each key, as in Gymnasium's vector infos."""
    columns: dict[str, Any] = {}
    for key in keys:
        columns[key] = np.empty(len(infos), object)
        for i, info in enumerate(infos):
            columns[key][i] = info.get(key)
        columns[f"_{key}"] = np.array([key in info for info in infos])
    return columns


def final_observation_row(infos: Any, i: int) -> Any:
    """Return the last observation of environment ``i``'s episode, or None if the infos have none."""
    try:
        return map_tree(lambda leaf: leaf[i], final_observations(infos))
    except (IndexError, KeyError, TypeError):
        return None


def _unpack(key: str, values: np.ndarray, present: np.ndarray, where: Where) -> np.ndarray:
    """Convert an array of objects, as Gymnasium makes of bools, strings or lists, to numbers or strings."""
    rows = np.flatnonzero(present)
    unpacked = try_as_array(values[rows].tolist())
    if unpacked.shape[:1] != rows.shape or unpacked.dtype.kind not in NUMBERS:
        arrays = [as_info(key, values[i], where, i) for i in rows.tolist()]
        for i, array in zip(rows.tolist(), arrays, strict=True):
            if describe_info(array) != describe_info(arrays[0]):
                raise ValueError(
                    f"info {key!r} must be of one shape and kind in all environments, "
                    f"got {describe_info(arrays[0])} and {describe_info(array)} {where(i)}"
                )
        unpacked = np.stack(arrays)
    batch = np.zeros((len(present), *unpacked.shape[1:]), unpacked.dtype)
    batch[rows] = unpacked
    return batch


def _belongs_to(infos: dict[str, Any], key: str, i: int, num_envs: int) -> bool:
    """Whether environment ``i`` has an info; an info without a valid mask belongs to all environments."""
    try:
        return bool(info_mask(infos, key, num_envs)[i])
    except ValueError:
        return True


def _has_rows(value: Any, num_envs: int) -> bool:
    is_row_of_rows = hasattr(value, "__getitem__") and isinstance(value, Sized)
    if not is_row_of_rows or isinstance(value, str | bytes | dict) or getattr(value, "ndim", 1) == 0:
        return False
    return len(value) == num_envs
