"""Backend: what keeps the transitions of a buffer, as arrays on the host or as tensors on a torch device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from her_wrappers.replay.sampling.windows import Windows

if TYPE_CHECKING:
    import torch

    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.sampling.windows import MakeWindows
    from her_wrappers.replay.storage.episode_storage import EpisodeStorage


class Backend(NamedTuple):
    """Where the transitions of a buffer are.

    Attributes:
        storage: It keeps them.
        windows: Makes windows of them.
        device: Where batches of tensors are handed out; None for arrays.
        on_device: Whether the transitions are there, too.
    """

    storage: EpisodeStorage
    windows: MakeWindows = Windows
    device: torch.device | None = None
    on_device: bool = False

    def hand_out(self, batch: Batch) -> Batch:
        """Return a batch where batches are wanted."""
        return batch if self.device is None or self.on_device else batch.to_torch(self.device)
