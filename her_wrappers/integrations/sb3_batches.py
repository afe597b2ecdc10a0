"""Batches of `HerReplayBuffer` as SB3's tuples of tensors. Several batches are sampled in one call."""

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

MAX_BATCHES = 64  # maximum number of batches that are sampled at once; more would save little time

MAX_BYTES = 2**23
"""Maximum size in bytes of all batches that are sampled at once; a single batch may be larger."""

NUM_INTERVALS = 8
"""For this number of intervals between additions of episodes, the number of used batches is stored."""


class TensorBatches:
    """Samples several batches at once from a buffer, and returns them one at a time.

    Sampling several batches in one call of ``buffer.sample`` takes little more time than sampling one batch.
    But when episodes are added, unused batches are dropped. To drop few, `next` first samples m batches after
    an addition, or a part of them if m is large. The number m is the smallest number of batches that `next`
    returned (used batches) between two successive additions, in the last `NUM_INTERVALS` intervals. If more
    are needed, `next` samples 1, 1, 2, 4, ... at a time. Each batch has the same distribution as if it were
    sampled alone.

    With ``discounts=True``, batches contain discounts; otherwise SB3 uses its own gamma. ``seed`` is the seed
    of the random order in which batches that were sampled together are returned.
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
        """Drop the unused batches. Call this whenever episodes are added to the buffer or removed from it."""
        self._batches = []
        if self._used:
            self._used_before.append(self._used)
            self._used = 0

    def next(self, batch_size: int, device: torch.device) -> DictReplayBufferSamples:
        """Return an unused batch; sample new batches if all are used."""
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
            return 1  # to measure the size of a batch
        left = min(self._used_before, default=0) - self._used
        count = left if left > 0 else max(1, -left)
        most = max(1, min(MAX_BATCHES, MAX_BYTES // self._bytes))
        return -(-count // -(-count // most))  # in equal parts, so that no part is small

    def _split(self, batch: Batch, count: int, device: torch.device) -> list[DictReplayBufferSamples]:
        """Split a batch into ``count`` batches of equal size, without a copy.

        Relabeled rows come first in ``batch``. To distribute them evenly, each part gets every ``count``-th
        row. The first parts can still get one relabeled row more than the last parts; the parts are therefore
        returned in random order.
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
        """Return the state without the batches sampled in advance, which would make a pickle large."""
        # The batches are views of the same tensors; pickle stores a complete tensor for each view.
        return self.__dict__ | {"_batches": []}


def normalized(batch: DictReplayBufferSamples, env: VecNormalize) -> DictReplayBufferSamples:
    """Return the batch with observations and rewards normalized by the current statistics of ``env``."""
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
