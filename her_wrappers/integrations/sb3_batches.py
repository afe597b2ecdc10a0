"""Batches for Stable-Baselines3: as its tuples of tensors, and several made at once."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.type_aliases import DictReplayBufferSamples

from her_wrappers.replay.draws import MOST_BATCHES, MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stable_baselines3.common.vec_env import VecNormalize

    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.buffer import HindsightReplayBuffer

MOST_BYTES = 2**22
"""Bytes of the batches that are made at once, unless a single one has more."""


class TensorBatches:
    """Makes batches of what a buffer stores.

    Sixteen of them at once cost little more than one: NumPy, torch and the environment are called as often.
    So as long as nothing is stored, twice as many are made as the last time. Each is as random as if made
    alone, of the same transitions.

    Args:
        buffer: Where they are from.
        seed: Seeds the order in which batches that were made together are handed out.
        discounts: Whether batches say what the value after them counts; else SB3 takes its own gamma.

    Raises:
        ValueError: They are to say so, and SB3 has no place for it.
    """

    def __init__(self, buffer: HindsightReplayBuffer, seed: int, *, discounts: bool) -> None:
        if discounts and "discounts" not in DictReplayBufferSamples._fields:
            raise ValueError(
                "n_steps > 1 needs a Stable-Baselines3 of 2.7 or later; upgrade it or use n_steps=1"
            )
        self._buffer = buffer
        self._discounts = discounts
        self._rng = np.random.default_rng(seed)
        self._batch_size = self._bytes = 0
        self.forget()

    def forget(self) -> None:
        """Forget what was not handed out, since what is stored changes."""
        self._made: list[DictReplayBufferSamples] = []
        self._count = 0

    def are_made(self, batch_size: int) -> bool:
        """Whether a batch of this size is ready."""
        return bool(self._made) and batch_size == self._batch_size

    def next(self, batch_size: int, device: torch.device) -> DictReplayBufferSamples:
        """Return the next batch.

        Args:
            batch_size: Number of transitions, B.
            device: Where it goes.

        Raises:
            ValueError: As `HindsightReplayBuffer.sample`.
        """
        if not self.are_made(batch_size):
            if batch_size != self._batch_size:
                self.forget()
                self._bytes = 0
            count = self._next_count(batch_size)
            batch = self._buffer.sample(count * batch_size)
            self._made = self._split(self._as_samples(batch, device), count)
            self._count, self._batch_size = count, batch_size
            self._bytes = sum(tensor.nbytes for tensor in _tensors(self._made[0]))
        return self._made.pop()

    def _as_samples(self, batch: Batch, device: torch.device) -> DictReplayBufferSamples:
        def on_device(array: np.ndarray) -> torch.Tensor:
            return _as_tensor(array, device)

        samples = DictReplayBufferSamples(
            observations={key: on_device(rows) for key, rows in batch.observations.items()},
            actions=on_device(batch.actions),
            next_observations={key: on_device(rows) for key, rows in batch.next_observations.items()},
            dones=on_device(batch.terminations[:, None].astype(np.float32)),
            rewards=on_device(batch.rewards[:, None]),
        )
        return samples._replace(discounts=on_device(batch.discounts[:, None])) if self._discounts else samples

    def _next_count(self, batch_size: int) -> int:
        if not self._count:
            return 1
        room = MOST_BYTES // max(1, self._bytes)
        return max(1, min(2 * self._count, MOST_BATCHES, MOST_ROWS // batch_size, room))

    def _split(self, samples: DictReplayBufferSamples, count: int) -> list[DictReplayBufferSamples]:
        """Return as many batches of equal size, in views.

        Relabeled rows come first, so each batch gets every ``count``-th row. Some may get one relabeled row
        more than others; which, is random.
        """
        if count == 1:
            return [samples]
        parts = _map(lambda rows: rows.unflatten(0, (-1, count)).unbind(1), samples)
        return [_map(itemgetter(i), parts) for i in self._rng.permutation(count)]

    def __getstate__(self) -> dict[str, Any]:
        """Leave batches behind: each would be saved with all that were made with it."""
        return self.__dict__ | {"_made": [], "_count": 0}


def normalized(batch: DictReplayBufferSamples, env: VecNormalize) -> DictReplayBufferSamples:
    """Return a batch as VecNormalize has it at present."""
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
    """Do as SB3's ``to_torch`` without a copy, in a quarter of the time."""
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.to(device)


def _map(function: Callable[[Any], Any], samples: DictReplayBufferSamples) -> DictReplayBufferSamples:
    """Return samples with a function applied to what stands for each tensor."""
    fields: list[Any] = [
        {key: function(rows) for key, rows in part.items()} if isinstance(part, dict) else function(part)
        for part in samples
        if part is not None
    ]
    return DictReplayBufferSamples(*fields)


def _tensors(samples: DictReplayBufferSamples) -> Sequence[torch.Tensor]:
    return [
        *samples.observations.values(),
        *samples.next_observations.values(),
        samples.actions,
        samples.dones,
    ]
