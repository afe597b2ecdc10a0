"""A running normaliser: mean and standard deviation of a stream of vectors."""

from __future__ import annotations

import torch
from torch import nn


class Normalizer(nn.Module):
    """Shift and scale vectors by the mean and the standard deviation of all that it was shown.

    Args:
        width: Numbers in a vector, D.
        clip: Largest absolute value that comes out.
        least_deviation: Deviations are taken for at least this: what hardly ever changes stays small.
    """

    count: torch.Tensor
    mean: torch.Tensor  # (D,) float64
    squares: torch.Tensor  # (D,) float64, sum of the squared distances from the mean
    shift: torch.Tensor  # (D,) float32
    scale: torch.Tensor  # (D,) float32

    def __init__(self, width: int, clip: float = 5.0, least_deviation: float = 0.01) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        for name in ("mean", "squares"):
            self.register_buffer(name, torch.zeros(width, dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self._clip = clip
        self._least_deviation = least_deviation

    @torch.no_grad()
    def learn(self, values: torch.Tensor) -> None:
        """Take (B, D) vectors into account."""
        values = values.double()
        mean = values.mean(dim=0)  # with the next line two to four times as fast as torch.var_mean
        spread = (values - mean).square().sum(dim=0)
        share = len(values) / (self.count + len(values))
        step = mean - self.mean
        self.squares += spread + len(values) * step.square() * (1 - share)
        self.mean += step * share
        self.count += len(values)
        self.shift.copy_(self.mean)
        self.scale.copy_((self.squares / self.count).sqrt().clamp(min=self._least_deviation).reciprocal())

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Normalise (B, D) vectors."""
        return ((values - self.shift) * self.scale).clamp(-self._clip, self._clip)
