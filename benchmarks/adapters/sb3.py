"""Adapter for the ``HerReplayBuffer`` of Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import stable_baselines3 as sb3

from benchmarks.scoreboard_claims import offers_of
from her_wrappers.conformance.adapters.sb3 import OursForStableBaselines3


class StableBaselines3(OursForStableBaselines3):
    """``HerReplayBuffer`` with ``copy_info_dict=True``, on the CPU."""

    name = f"Stable-Baselines3 {sb3.__version__}"
    offers = offers_of("sb3:StableBaselines3")
    evicts = None

    @staticmethod
    def buffer_class(*, termination: str, seed: int, **options: Any) -> sb3.HerReplayBuffer:
        """Make the buffer without ``seed``: it samples with NumPy's global generator."""
        return sb3.HerReplayBuffer(**options)
