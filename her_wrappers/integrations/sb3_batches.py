"""Batches of `HerReplayBuffer`, which are SB3's tuples of tensors. Several batches are sampled at once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.type_aliases import DictReplayBufferSamples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stable_baselines3.common.vec_env import VecNormalize

    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.buffer import HindsightReplayBuffer

MAX_BATCHES = 64
"""Maximal number of batches that are sampled at once; more would save little time."""

MAX_BYTES = 2**23
"""Maximal size in bytes of the batches that are sampled at once, unless one batch is larger."""

NUM_INTERVALS = 8
"""Number of past intervals between changes of the buffer for which the number of used batches is stored."""


class TensorBatches:
    """Samples several batches at once from a buffer.

    Sampling several batches takes little more time than one batch, since each function is called only once.
    Adding episodes drops the unused batches. To drop few, the first call of `next` after an addition samples
    m batches, where m is the smallest number of batches used between two recent additions. When these are
    used up, the next calls sample 1, 1, 2, 4, ... further batches. Each batch has the same distribution as if
    it were sampled alone.

    With ``discounts=True``, batches contain discounts; otherwise SB3 uses its own gamma. ``seed`` determines
    the order of batches that were sampled together.
    """

    def __init__(self, buffer: HindsightReplayBuffer, seed: int, *, discounts: bool) -> None:
        if discounts and "discounts" not in DictReplayBufferSamples._fields:
            raise ValueError(
                f"n_steps > 1 needs Stable-Baselines3 2.7 or later, got {sb3.__version__}; upgrade it "
                "or use n_steps=1"
            )
        self._buffer = buffer
        self._discounts = discounts
        self._rng = np.random.default_rng(seed)
        self._batches: list[DictReplayBufferSamples] = []
        self._batch_size = self._bytes = 0
        self._used = 0
        self._used_before: deque[int] = deque(maxlen=NUM_INTERVALS)

    def invalidate(self) -> None:
        """Drop the unused batches, since the content of the buffer changes."""
        self._batches = []
        if self._used:
            self._used_before.append(self._used)
            self._used = 0

    def next(self, batch_size: int, device: torch.device) -> DictReplayBufferSamples:
        """Return an unused batch; if there is none, sample new batches."""
        if batch_size != self._batch_size:
            self._batch_size, self._bytes, self._used = batch_size, 0, 0
            self._used_before.clear()
            self._batches = []
        if not self._batches:
            count = self._next_count()
            self._batches = self._split(self._buffer.sample(count * batch_size), count, device)
            first = self._batches[0]
            states = *first.observations.values(), *first.next_observations.values()
            self._bytes = sum(each.nbytes for each in (*states, first.actions, first.dones))
        self._used += 1
        return self._batches.pop()

    def _next_count(self) -> int:
        if not self._bytes:
            return 1  # to know its size
        left = min(self._used_before, default=0) - self._used
        count = left if left > 0 else max(1, -left)
        most = max(1, min(MAX_BATCHES, MAX_BYTES // self._bytes))
        return -(-count // -(-count // most))  # in equal parts, so that the last one is not small

    def _split(self, batch: Batch, count: int, device: torch.device) -> list[DictReplayBufferSamples]:
        """Split a batch into ``count`` batches of equal size, without a copy.

        Relabeled rows come first, so each batch gets every ``count``-th row. Some batches get one relabeled
        row more than others; the order of the batches is random.
        """

        def split(array: np.ndarray) -> Sequence[torch.Tensor]:
            return _as_tensor(array.reshape(-1, count, *array.shape[1:]), device).unbind(1)

        def split_all(arrays: Mapping[str, np.ndarray]) -> list[dict[str, torch.Tensor]]:
            parts = zip(*map(split, arrays.values()), strict=True)
            return [dict(zip(arrays, part, strict=True)) for part in parts]

        columns = [
            split_all(batch.observations),
            split(batch.actions),
            split_all(batch.next_observations),
            split(batch.terminations[:, None].astype(np.float32)),
            split(batch.rewards[:, None]),
        ]
        if self._discounts:
            columns.append(split(batch.discounts[:, None]))
        made = [DictReplayBufferSamples(*fields) for fields in zip(*columns, strict=True)]
        return [made[i] for i in self._rng.permutation(count).tolist()]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without batches: each is a view, whose pickle would contain all batches."""
        return self.__dict__ | {"_batches": []}


def normalized(batch: DictReplayBufferSamples, env: VecNormalize) -> DictReplayBufferSamples:
    """Return a batch that is normalized with the current statistics of a VecNormalize."""
    device = batch.rewards.device

    def observations(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        arrays: Any = env.normalize_obs({key: rows.numpy(force=True) for key, rows in tensors.items()})
        return {key: _as_tensor(rows, device) for key, rows in arrays.items()}

    return batch._replace(
        observations=observations(batch.observations),
        next_observations=observations(batch.next_observations),
        rewards=_as_tensor(env.normalize_reward(batch.rewards.numpy(force=True)), device),
    )


def _as_tensor(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Return an array as a tensor without a copy, unlike SB3's ``to_torch``."""
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.to(device)
