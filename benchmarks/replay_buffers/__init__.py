"""The replay buffers that `benchmarks.replay` compares, with one file for each library."""

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
"""Module and class of each library's adapter, by the import name of the library."""


def installed_peers() -> tuple[list[type[Contender]], list[str]]:
    """Return the adapters of installed libraries, and the names of libraries that are not installed."""
    missing = [library for library in PEERS if find_spec(library) is None]
    found = [
        getattr(import_module(f"{__name__}.{module}"), adapter)
        for library, (module, adapter) in PEERS.items()
        if library not in missing
    ]
    return found, missing
