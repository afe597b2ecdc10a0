"""Backends: whether a buffer keeps its transitions as arrays on the host, or as tensors on a torch device."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from her_wrappers.replay.relabeling.relabeling import Relabeling
from her_wrappers.replay.sampling.windows import Windows
from her_wrappers.replay.storage.episode_storage import EpisodeStorage

if TYPE_CHECKING:
    import torch
    from gymnasium import spaces

    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.relabeling.relabeling import AnyRelabeling
    from her_wrappers.replay.sampling.windows import MakeWindows
    from her_wrappers.replay.storage.infos import InfoLayout
    from her_wrappers.replay.storage.step_layout import StepLayout


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


def choose_backend(
    device: str | torch.device | None,
    observation_space: spaces.Dict,
    action_space: spaces.Space[Any],
    *,
    buffer_size: int,
    layout: StepLayout,
    infos: InfoLayout,
    relabeling: AnyRelabeling,
) -> Backend:
    """Keep transitions on a device if all functions take tensors there, else on the host.

    Args:
        device: Where batches are wanted; None for arrays.
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        buffer_size: Steps to hold.
        layout: Of the steps.
        infos: The infos to keep.
        relabeling: Asks the functions, if there are any to ask.

    Raises:
        ImportError: There is no torch.
        MemoryError: There is not so much memory.
        TypeError: Torch does not have a dtype of the spaces.
        ValueError: There is no such device.
    """
    if device is None:
        return Backend(EpisodeStorage(layout, buffer_size, infos))
    _require_torch(device)
    # Only now: these import torch.
    from her_wrappers.replay.devices.device import find_device  # noqa: PLC0415 - an optional dependency
    from her_wrappers.replay.devices.device_storage import DeviceStorage  # noqa: PLC0415 - an optional dependency
    from her_wrappers.replay.devices.tensor_probe import (  # noqa: PLC0415 - an optional dependency
        made_up_steps,
        obstacle,
        obstacle_of_infos,
    )
    from her_wrappers.replay.devices.tensor_records import torch_dtype  # noqa: PLC0415 - an optional dependency
    from her_wrappers.replay.devices.tensor_windows import TensorWindows  # noqa: PLC0415 - an optional dependency

    place, reason = find_device(device), None
    for name, dtype in layout.dtypes().items():
        torch_dtype(name, dtype)
    if isinstance(relabeling, Relabeling):
        reason = obstacle_of_infos(infos) or obstacle(
            relabeling, made_up_steps(layout, observation_space, action_space, infos.keys), place
        )
    if reason is None:
        storage = DeviceStorage(layout, buffer_size, infos, place)
        return Backend(storage, partial(TensorWindows, device=place), place, on_device=True)
    if place.type != "cpu":  # where it costs nothing
        _warn_of_the_host(reason, place)
    return Backend(EpisodeStorage(layout, buffer_size, infos), device=place)


def _require_torch(device: str | torch.device) -> None:
    """Refuse a device where there is no torch.

    Raises:
        ImportError: There is none.
    """
    try:
        import torch  # noqa: F401, PLC0415 - an optional dependency
    except ImportError as error:
        raise ImportError(
            f"device={str(device)!r} needs torch; install her-toolkit[torch], or leave device out"
        ) from error


def _warn_of_the_host(reason: str, device: torch.device) -> None:
    warnings.warn(
        f"transitions are kept and relabeled on the host, and each batch is copied to {device}, since "
        f"{reason}; with functions that take tensors as well as arrays all stays there",
        stacklevel=5,
    )
