"""StepRing: the last steps of one environment, or of N environments that step together.

A *moment* is the time between two joint steps of the environments. The ring has one row for each moment, in
the slot ``moment % capacity``: the states at this moment, and the actions, rewards and infos of the joint
step that ended at this moment.

    moment     4    5    6    7
    state      s0   s1   s2   s3      an episode that began at moment 4
    step            a0   a1   a2      its actions, rewards and infos

Values are copied when they arrive, so environments that reuse their arrays are recorded correctly.
Observations and actions are written to `io.BytesIO` objects: this takes half the time of NumPy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy import ndarray

from her_wrappers.data.infos import InfoBatch, Where, describe_info
from her_wrappers.data.spaces import LeafSpec, SpaceSpec
from her_wrappers.data.trees import Tree, concatenate_trees


class Column(NamedTuple):
    """One array of the observations or actions, with a row for each moment in the ring."""

    leaf: LeafSpec
    shape: tuple[int, ...]  # (capacity, N, ...), or without N for a single environment
    data: BytesIO
    nbytes: int  # size of one row


Writer: TypeAlias = tuple[LeafSpec, str | None, np.dtype[Any], tuple[int, ...], Callable[[Any], int]]
"""A leaf, its key, its dtype, the shape of a row, and the function that writes the next row."""


class StepRing:
    """Values of N environments at the last moments, in rows (N, ...); no axis N if ``num_envs`` is None."""

    def __init__(
        self, observations: SpaceSpec, actions: SpaceSpec, num_envs: int | None, capacity: int = 64
    ) -> None:
        self.capacity = capacity
        self.specs = observations, actions
        self.num_envs = num_envs
        self._lead = () if num_envs is None else (num_envs,)
        self._width = num_envs or 1
        self._states = [self._column(leaf) for leaf in observations]
        self._actions = [self._column(leaf) for leaf in actions]
        self.state_writers, self.action_writers = _writers(self._states), _writers(self._actions)
        self.rewards = np.zeros((capacity, *self._lead))  # (capacity, N)
        self.infos: dict[str, np.ndarray] = {}  # (capacity, N, ...) by key

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if not key.endswith("_writers")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)  # a copied writer would write to the original
        self.state_writers, self.action_writers = _writers(self._states), _writers(self._actions)

    def seek(self, moment: int) -> None:
        """Make the row of ``moment`` the next row to be written."""
        slot = moment % self.capacity
        for column in (*self._states, *self._actions):
            column.data.seek(slot * column.nbytes)

    def put_states(self, moment: int, envs: np.ndarray, values: Sequence[np.ndarray]) -> None:
        """Replace the states of n environments at a moment (time index) by ``values``, leaves (n, ...)."""
        self.seek(moment)
        for column, value, kept in zip(self._states, values, self.states_at(moment), strict=True):
            row = kept.copy()
            row[envs] = value
            column.data.write(row.data)

    def states_at(self, moment: int) -> list[np.ndarray]:
        """Return views of the states at ``moment``: leaves, each (N, ...), valid until the next write."""
        return [self._view(column)[moment % self.capacity] for column in self._states]

    def fit_info(self, key: str, batch: InfoBatch, where: Where) -> None:
        """Create the array of the info ``key``, or widen its dtype if the values of ``batch`` do not fit."""
        column, values, lead = self.infos.get(key), batch.values, len(self._lead)
        if column is None:
            self.infos[key] = np.zeros((self.capacity, *values.shape), values.dtype)
            return
        if column.dtype == values.dtype and column.shape[1:] == values.shape:
            return
        before, now = describe_info(column[(0,) * (lead + 1)]), describe_info(values[(0,) * lead])
        if before != now:
            raise ValueError(
                f"info {key!r} must have the same shape and type at every step, got {before} and then {now} "
                f"{where(int(np.argmax(batch.present)))}"
            )
        wider, shape = np.promote_types(column.dtype, values.dtype), values.shape[lead:]
        known = column[:0] if wider == column.dtype else column
        concatenate_trees(f"infos/{key}", [known.reshape(-1, *shape), values.reshape(-1, *shape)])  # exact
        self.infos[key] = column.astype(wider, copy=False)

    def put_infos(self, moment: int, batches: Mapping[str, InfoBatch], chosen: Any) -> None:
        """Write infos of the environments ``chosen``, (N,) bool or True, at the time index ``moment``."""
        for key, batch in batches.items():  # `fit_info` made the arrays
            self.infos[key][moment % self.capacity, ...][chosen] = batch.values[chosen]

    def collect(self, envs: np.ndarray | None, begun: Any, lengths: Any) -> dict[str, Any]:
        """Return fields of `Episodes`; arguments are (n,) or, for a single environment, None and integers."""
        states = self._index(envs, begun, lengths + 1)
        steps = self._index(envs, begun + 1, lengths)
        observations, actions = self.specs
        return {
            "observations": observations.build([self._take(self._view(c), states) for c in self._states]),
            "actions": actions.build([self._take(self._view(c), steps) for c in self._actions]),
            "rewards": self._take(self.rewards, steps),
            "infos": {key: self._take(column, steps) for key, column in self.infos.items()},
        }

    def grown(self) -> StepRing:
        """Return a ring of twice the capacity; both halves are copies of this ring, so moments stay valid."""
        larger = StepRing(*self.specs, self.num_envs, 2 * self.capacity)
        targets = *larger._states, *larger._actions
        for column, target in zip((*self._states, *self._actions), targets, strict=True):
            target.data.write(column.data.getvalue() * 2)
        larger.rewards = np.concatenate([self.rewards] * 2)
        larger.infos = {key: np.concatenate([values] * 2) for key, values in self.infos.items()}
        return larger

    def _column(self, leaf: LeafSpec) -> Column:
        nbytes = math.prod((*self._lead, *leaf.shape)) * leaf.dtype.itemsize
        shape = (self.capacity, *self._lead, *leaf.shape)
        return Column(leaf, shape, BytesIO(bytes(self.capacity * nbytes)), nbytes)

    def _view(self, column: Column) -> np.ndarray:
        # getvalue makes no copy, and unlike getbuffer does not lock the object while the view exists.
        return ndarray(column.shape, column.leaf.dtype, column.data.getvalue())

    def _index(self, envs: np.ndarray | None, first: Any, counts: Any) -> np.ndarray | slice:
        """Return the index with which `_take` copies successive moments of the environments ``envs``."""
        first = first % self.capacity
        if envs is None:
            in_order = first + counts <= self.capacity
            return slice(first, first + counts) if in_order else np.arange(first, first + counts)
        if len(envs) == 1:  # faster
            index: np.ndarray = np.arange(first[0], first[0] + counts[0]) * self._width + envs[0]
            return index
        before = np.cumsum(counts) - counts
        index = np.arange(counts.sum()) * self._width
        index += np.repeat((first - before) * self._width + envs, counts)
        return index

    def _take(self, array: np.ndarray, index: np.ndarray | slice) -> np.ndarray:
        """Return an array (n, ...), a copy of the values at the n indices that `_index` returned."""
        if isinstance(index, slice):
            return array[index].copy()
        lead = 1 + len(self._lead)
        flat = array.reshape(math.prod(array.shape[:lead]), *array.shape[lead:])
        return flat.take(index, axis=0, mode="wrap")


def _writers(columns: Iterable[Column]) -> list[Writer]:
    return [(leaf, leaf.key, leaf.dtype, shape[1:], data.write) for leaf, shape, data, _ in columns]


def write(
    writers: list[Writer], tree: Tree, check: Callable[..., np.ndarray], ahead: int, rounding: bool = False
) -> None:
    """Write ``tree`` to the current row; ``check(leaf, tree, ahead, rounding)`` converts other dtypes."""
    for leaf, key, dtype, shape, put in writers:
        try:
            value = tree if key is None else tree[key]
            if type(value) is ndarray and value.dtype is dtype and value.shape == shape:
                put(value)
                continue
        except (KeyError, IndexError, TypeError, ValueError, BufferError):  # missing, or not contiguous
            pass
        put(np.ascontiguousarray(check(leaf, tree, ahead, rounding)))
