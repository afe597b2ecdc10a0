"""TQC for goal environments (Kuznetsov et al. 2020, arXiv 2005.04269): SAC with distributional critics.

Each critic estimates quantiles of the distribution of returns. Targets leave out the largest quantiles of all
critics together, which reduces overestimation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from her_agents.algorithms.options import TQCOptions
from her_agents.algorithms.sac import SAC

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_agents.algorithms.networks import Critics, NetworkInput
    from her_wrappers import Batch


class TQC(SAC):
    """TQC: SAC whose critics estimate quantiles of returns; targets leave out the largest quantiles.

    TQC takes the arguments of `Agent`, the fields of `her_agents.TQCOptions`, and a bounded Box of actions.
    """

    options: TQCOptions
    options_type = TQCOptions

    def build(self, action_space: spaces.Space[Any]) -> None:
        """Make the networks and optimizers, and the levels of the quantiles."""
        count = self.options.n_quantiles
        self._levels = (torch.arange(count, device=self.device) + 0.5) / count  # of the quantiles of a critic
        kept = count - self.options.top_quantiles_to_drop_per_net
        self._n_target_quantiles = self.options.n_critics * kept
        super().build(action_space)

    def make_critics(self, num_outputs: int) -> Critics:
        """Return critics with one output for each quantile; ``num_outputs`` is ignored."""
        return super().make_critics(self.options.n_quantiles)

    def critic_loss(self, batch: Batch, values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the 0-d quantile Huber loss; store TD errors, averaged over quantiles, for `td_errors`."""
        self._errors = values.mean(dim=1) - target.mean(dim=0)
        errors = target - values.unsqueeze(2)  # (critics, quantiles, target quantiles, B)
        size = errors.detach().abs()
        # The derivative of the Huber loss with threshold 1 is the error, clipped to [-1, 1].
        huber = torch.where(size > 1, errors.abs() - 0.5, 0.5 * errors.square())
        weights = (self._levels.view(-1, 1, 1) - (errors.detach() < 0).float()).abs()
        return (self.as_tensor(batch.weights) * weights * huber).mean()

    def q_values(self, values: torch.Tensor) -> torch.Tensor:
        """Return the mean over all quantiles of all critics, (B,), from the critics' values (C, K, B)."""
        return values.mean(dim=(0, 1))

    @torch.no_grad()
    def target_values(self, batch: Batch, next_inputs: NetworkInput) -> torch.Tensor:
        """Return M targets for each step, (M, B), from the M smallest quantiles of all target critics."""
        actions, entropy = self.sample(next_inputs)
        quantiles = self.targets(next_inputs, actions).flatten(0, 1).sort(dim=0).values
        next_values = quantiles[: self._n_target_quantiles] + self.temperature * entropy
        return self.bellman_target(batch, next_values)
