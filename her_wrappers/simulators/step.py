"""SimulatorStep: one step of all environments of a simulator."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class SimulatorStep(NamedTuple):
    """One step of N environments, as tensors on one device."""

    observation: dict[
        str, Any
    ]  # the three keys; what the policy sees next: after a reset where an episode ended
    action: Any  # (N, A)
    reward: torch.Tensor  # (N,) float32
    terminated: torch.Tensor  # (N,) bool
    truncated: torch.Tensor  # (N,) bool
    last_observation: dict[str, Any]  # the observation after the step, before any reset, in all N rows
    info: dict[str, torch.Tensor]  # (N, ...) columns of info_keys
    first_observation: dict[str, Any] | None  # what reset() returned, in the first step after it; else None
