"""The contenders of `benchmarks.replay`, one file a library; a library need not be there."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.replay_buffers.contender import Contender

PEERS = {
    "stable_baselines3": ("sb3", "StableBaselines3"),
    "cpprb": ("cpprb", "Cpprb"),
    "tianshou": ("tianshou", "Tianshou"),
    "torchrl": ("torchrl", "TorchRL"),
}
"""From a peer's import name to the module and class that adapt it."""


def installed_peers() -> tuple[list[type[Contender]], list[str]]:
    """Return the peers that are installed, and the names of those that are not."""
    missing = [library for library in PEERS if find_spec(library) is None]
    found = [
        getattr(import_module(f"{__name__}.{module}"), adapter)
        for library, (module, adapter) in PEERS.items()
        if library not in missing
    ]
    return found, missing
