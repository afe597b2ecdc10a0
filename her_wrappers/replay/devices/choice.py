"""The choice of whether transitions are kept on the device where batches are wanted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from her_wrappers.replay.backend import Backend
from her_wrappers.replay.devices.device import find_device
from her_wrappers.replay.devices.device_storage import DeviceStorage
from her_wrappers.replay.devices.tensor_probe import made_up_steps, obstacle, obstacle_of_infos
from her_wrappers.replay.devices.tensor_records import torch_dtype
from her_wrappers.replay.devices.tensor_windows import TensorWindows
from her_wrappers.replay.relabeling.relabeling import Relabeling
from her_wrappers.replay.storage.episode_storage import EpisodeStorage
from her_wrappers.user_warning import warn_user

if TYPE_CHECKING:
    import torch

    from her_wrappers.replay.relabeling.relabeling import AnyRelabeling
    from her_wrappers.replay.storage.step_layout import StepLayout


def choose_backend(
    device: str | torch.device, layout: StepLayout, buffer_size: int, relabeling: AnyRelabeling
) -> Backend:
    """Keep transitions on a device if all functions take tensors there, else on the host.

    Args:
        device: Where batches are wanted.
        layout: Of the steps.
        buffer_size: Steps to hold.
        relabeling: Asks the functions, if there are any to ask.

    Raises:
        MemoryError: There is not so much memory.
        TypeError: Torch does not have a dtype of the spaces.
        ValueError: There is no such device.
    """
    place, reason = find_device(device), None
    for name, dtype in layout.dtypes().items():
        torch_dtype(name, dtype)
    if isinstance(relabeling, Relabeling):
        reason = obstacle_of_infos(layout.infos) or obstacle(relabeling, made_up_steps(layout), place)
    if reason is None:
        storage = DeviceStorage(layout, buffer_size, place)
        return Backend(storage, partial(TensorWindows, device=place), place, on_device=True)
    if place.type != "cpu":  # where it costs nothing
        _warn_of_the_host(reason, place)
    return Backend(EpisodeStorage(layout, buffer_size), device=place)


def _warn_of_the_host(reason: str, device: torch.device) -> None:
    warn_user(
        f"transitions are kept and relabeled on the host, and each batch is copied to {device}, since "
        f"{reason}; with functions that take tensors as well as arrays all stays there"
    )
