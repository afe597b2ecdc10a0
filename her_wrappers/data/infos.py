"""Infos of single and of vector environments: functions that read Gymnasium's vector infos.

The info ``k`` is an array with a row for each of N environments; the mask ``_k``, (N,) bool, marks those that
have it. In mode SAME_STEP, ``final_obs`` (an array of dicts or a dict of arrays) and ``final_info`` have the
last observations and infos of episodes. `info_columns` converts a list of N dicts, as of Stable-Baselines3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from her_wrappers.data.trees import NUMBERS, STRINGS, map_tree, try_as_array

FINAL_NAMES = "final_obs", "final_observation", "terminal_observation"
"""Keys of the last observation in infos: in Gymnasium, Gymnasium before 1.1, and Stable-Baselines3."""

Where: TypeAlias = Callable[[int], str]
"""Function from an environment i to its place in messages, such as "at step 7 of environment 3"."""


class InfoBatch(NamedTuple):
    """The values of one info key in all N environments."""

    values: np.ndarray  # (N, ...); the rows of environments without the info have no meaning
    present: np.ndarray  # (N,) bool, the environments that have the info


def as_info(key: str, value: Any, where: Where, row: int) -> np.ndarray:
    """Return ``value`` of the info ``key`` as a new array of numbers or strings, or raise ValueError."""
    array = np.array(try_as_array(value))
    if array.dtype.kind not in NUMBERS + STRINGS:
        raise ValueError(
            f"info {key!r} must be a number, a string or an array of these, got {value!r} {where(row)}"
        )
    return array


def missing_info(key: str, where: str, has: object) -> str:
    """Return the error message for infos that lack ``key``; ``where`` is the step, ``has`` the keys found."""
    other = "use her_wrappers.repairs.BooleanSuccess" if key == "is_success" else "omit it from info_keys"
    return f"info has no {key!r} {where}, only {has}; return it at every step, or {other}"


def describe_info(value: np.ndarray) -> str:
    """Return kind and shape of an info in words, such as ``"numbers of shape (3,)"``."""
    return f"{'strings' if value.dtype.kind in STRINGS else 'numbers'} of shape {value.shape}"


def info_mask(infos: Mapping[str, Any], key: str, num_envs: int) -> np.ndarray:
    """Return which environments have the info ``key``, (N,) bool; raise ValueError for an invalid mask."""
    mask = np.asarray(infos.get(f"_{key}", np.ones(num_envs, bool)))
    if mask.shape != (num_envs,) or mask.dtype != np.bool_:
        raise ValueError(f"infos['_{key}'] must be bools of shape ({num_envs},), got {infos[f'_{key}']!r}")
    return mask if key in infos else np.zeros(num_envs, bool)


def info_batch(key: str, infos: Mapping[str, Any], required: np.ndarray, where: Where) -> InfoBatch | None:
    """Return the info ``key``, or None; ValueError if an environment in ``required``, (N,) bool, lacks it."""
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
        got = f"dtype {values.dtype} and shape {values.shape}" if values.shape else repr(infos[key])
        raise ValueError(
            f"info {key!r} must be an array of numbers or strings with {count} rows, one per environment, "
            f"got {got} {where(int(present.argmax()))}"
        )
    if values.dtype == object:  # Gymnasium's form for strings, lists and NumPy bools
        values = _unpack(key, values, present, where)
    return InfoBatch(values, present)


def info_row(infos: Any, i: int, num_envs: int) -> dict[str, Any]:
    """Return the info dict of environment ``i``; a value without one row per environment belongs to all."""
    found: dict[str, Any] = {}
    for key, value in infos.items() if isinstance(infos, dict) else ():
        try:
            is_missing = not info_mask(infos, key, num_envs)[i]
        except ValueError:  # an info without a valid mask belongs to all environments
            is_missing = False
        if is_missing or str(key).startswith(("_", "final_")):
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
    """Return which environments have a last observation in ``infos``, (N,) bool."""
    name = _final_name(infos)
    mask: Any = infos.get(f"_{name}", True) if name else False
    return np.broadcast_to(np.asarray(mask), num_envs)


def _final_name(infos: Any) -> str | None:
    names = FINAL_NAMES if isinstance(infos, Mapping) else ()
    return next((name for name in names if infos.get(name) is not None), None)


def info_columns(infos: Any, num_envs: int, keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the infos of N environments in Gymnasium's format; of a list of N dicts, only ``keys``.

    If a dict in the list has one of `FINAL_NAMES`, the result has ``final_obs`` and ``final_info``.
    """
    if isinstance(infos, Mapping) or infos is None:
        return infos or {}
    if not isinstance(infos, Sequence) or len(infos) != num_envs:
        length = f" of length {len(infos)}" if isinstance(infos, Sized) else ""
        raise ValueError(
            f"info must be a list of {num_envs} dicts (one per environment) or a single dict of arrays, "
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
    columns: dict[str, Any] = {}
    for key in keys:
        columns[key] = np.empty(len(infos), object)
        for i, info in enumerate(infos):
            columns[key][i] = info.get(key)
        columns[f"_{key}"] = np.array([key in info for info in infos])
    return columns


def final_observation_row(infos: Any, i: int) -> Any:
    """Return the last observation of the episode of environment ``i``, or None if the infos have none."""
    try:
        return map_tree(lambda leaf: leaf[i], final_observations(infos))
    except (IndexError, KeyError, TypeError):
        return None


def _unpack(key: str, values: np.ndarray, present: np.ndarray, where: Where) -> np.ndarray:
    rows = np.flatnonzero(present)
    unpacked = try_as_array(values[rows].tolist())
    if unpacked.shape[:1] != rows.shape or unpacked.dtype.kind not in NUMBERS:
        arrays = [as_info(key, values[i], where, i) for i in rows.tolist()]
        for i, array in zip(rows.tolist(), arrays, strict=True):
            if describe_info(array) != describe_info(arrays[0]):
                raise ValueError(
                    f"info {key!r} must have the same shape and type in all environments, got "
                    f"{describe_info(array)} {where(i)}, but {describe_info(arrays[0])} in another one"
                )
        unpacked = np.stack(arrays)
    batch = np.zeros((len(present), *unpacked.shape[1:]), unpacked.dtype)
    batch[rows] = unpacked
    return batch


def _has_rows(value: Any, num_envs: int) -> bool:
    is_row_of_rows = hasattr(value, "__getitem__") and isinstance(value, Sized)
    if not is_row_of_rows or isinstance(value, str | bytes | dict) or getattr(value, "ndim", 1) == 0:
        return False
    return len(value) == num_envs
