"""Batches of a vector environment: the rows of each environment, and the parts without such rows."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import numpy as np

from her_wrappers.checker.rollout import ResetRecord, StepRecord
from her_wrappers.trees import leaf_arrays, map_tree


def misshapen(record: ResetRecord | StepRecord, num_envs: int) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Yield the parts without a row for each environment: name, shape and expected shape."""
    whole = record.observation
    for key, part in whole.items() if isinstance(whole, dict) else [("observation", whole)]:
        for leaf in leaf_arrays(part):
            if as_array(leaf).shape[:1] != (num_envs,):
                yield str(key), as_array(leaf).shape, f"({num_envs}, ...)"
    if isinstance(record, ResetRecord):
        return
    for name in ("reward", "terminated", "truncated"):
        shape = as_array(getattr(record, name)).shape
        if shape != (num_envs,):
            yield name, shape, f"({num_envs},)"


def as_array(value: Any) -> np.ndarray:
    """Return a value as an array; an array without axes for values such as lists of unequal length."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.asarray(None)


def ended_rows(step: StepRecord) -> np.ndarray:
    """Return which environments ended their episode: (N,) bool."""
    return np.array([bool(one or other) for one, other in zip(step.terminated, step.truncated, strict=True)])


def row(batch: Any, i: int) -> Any:
    """Return what belongs to environment ``i``."""
    return map_tree(lambda leaf: leaf[i], batch)


def final_key(infos: Any) -> str | None:
    """Return the name under which infos hold final observations, or None."""
    names = ("final_obs", "final_observation")
    return next((name for name in names if isinstance(infos, dict) and infos.get(name) is not None), None)


def final_row(infos: Any, i: int) -> Any:
    """Return the last observation of environment ``i``'s episode, or None where the infos lack it.

    Gymnasium has an array of dicts there, other libraries a dict of arrays.
    """
    key = final_key(infos)
    if key is None:
        return None
    try:
        return row(infos[key], i)
    except (IndexError, KeyError, TypeError):
        return None


def final_info_row(infos: Any, i: int, num_envs: int) -> dict[str, Any]:
    """Return the last info of environment ``i``'s episode; an empty one where the infos lack it."""
    return info_row(infos.get("final_info"), i, num_envs)


def info_row(infos: Any, i: int, num_envs: int) -> dict[str, Any]:
    """Return the info of environment ``i``: the keys whose mask is set, or that have no mask.

    A value without a row for each environment, such as a count of all steps, belongs to every environment.
    """
    found: dict[str, Any] = {}
    for key, value in infos.items() if isinstance(infos, dict) else ():
        mask = infos.get(f"_{key}")
        if str(key).startswith(("_", "final_")) or (_has_rows(mask, num_envs) and not _any(mask[i])):
            continue
        if isinstance(value, dict):
            found[key] = info_row(value, i, num_envs)
        else:
            found[key] = _item(value[i]) if _has_rows(value, num_envs) else value
    return found


def _has_rows(value: Any, num_envs: int) -> bool:
    is_row_of_rows = hasattr(value, "__getitem__") and isinstance(value, Sized)
    if not is_row_of_rows or isinstance(value, str | bytes | dict) or getattr(value, "ndim", 1) == 0:
        return False
    return len(value) == num_envs


def _any(value: Any) -> bool:
    # As objects, since NumPy 1 has no any() of texts.
    return bool(np.any(np.asarray(value, dtype=object)))


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
