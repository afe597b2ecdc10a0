"""TQC for goal environments (Kuznetsov et al. 2020, arXiv 2005.04269): SAC with distributional critics.

Each critic estimates quantiles of the distribution of returns. Targets leave out the largest quantiles of all
critics together, which reduces overestimation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.agent import bellman_target
from her_agents.networks import Network
from her_agents.sac import SAC

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_agents.networks import GoalInputs, NetworkInput
    from her_wrappers import Batch


class TQC(SAC):
    """TQC: SAC whose critics estimate quantiles, of which targets leave out the largest.

    Names and defaults of the options that `SAC` does not have are those of sb3-contrib.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: A Box with bounds.
        hidden: Units of each hidden layer.
        layer_norm: Whether to normalize the units of each hidden layer before the activation.
        learning_rate: Step size of all Adam optimizers.
        gamma: Discount per step, as in the replay buffer; used for the bounds of clipped targets.
        tau: Weight of the online parameters in the Polyak update of the target critics.
        target_update_interval: Number of updates for each Polyak update.
        temperature: Initial weight of the entropy.
        learn_temperature: Whether the temperature is learned; otherwise it is constant.
        target_entropy: Target of the mean entropy; by default minus the length of an action vector. Not used
            with a constant temperature.
        n_critics: Number of critics.
        n_quantiles: Quantiles of each critic.
        top_quantiles_to_drop_per_net: Quantiles that targets leave out, for each critic; below
            ``n_quantiles``.
        clip_targets: Whether to clip targets at the lowest return of rewards in [-1, 0].
        seed: Seed of the weights and of sampled actions.

    Raises:
        TypeError: ``action_space`` is not a Box with bounds, or observations or goals are neither vectors nor
            images.
        ValueError: ``top_quantiles_to_drop_per_net`` is not in [0, ``n_quantiles``).
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        hidden: Sequence[int] = (64, 64, 64),
        layer_norm: bool = False,
        learning_rate: float = 1e-3,
        gamma: float = 0.98,
        tau: float = 0.05,
        target_update_interval: int = 1,
        temperature: float = 0.1,
        learn_temperature: bool = True,
        target_entropy: float | None = None,
        n_critics: int = 2,
        n_quantiles: int = 25,
        top_quantiles_to_drop_per_net: int = 2,
        clip_targets: bool = True,
        seed: int = 0,
    ) -> None:
        if not 0 <= top_quantiles_to_drop_per_net < n_quantiles:
            raise ValueError(
                f"top_quantiles_to_drop_per_net must be in [0, n_quantiles={n_quantiles}), "
                f"got {top_quantiles_to_drop_per_net}"
            )
        self._n_critics, self._n_quantiles = n_critics, n_quantiles
        self._n_target_quantiles = n_critics * (n_quantiles - top_quantiles_to_drop_per_net)
        self._levels = (torch.arange(n_quantiles) + 0.5) / n_quantiles  # of the quantiles of a critic
        super().__init__(
            observation_space,
            action_space,
            hidden=hidden,
            layer_norm=layer_norm,
            learning_rate=learning_rate,
            gamma=gamma,
            tau=tau,
            target_update_interval=target_update_interval,
            temperature=temperature,
            learn_temperature=learn_temperature,
            target_entropy=target_entropy,
            clip_targets=clip_targets,
            seed=seed,
        )

    def _make_critics(self, hidden: Sequence[int], layer_norm: bool) -> nn.Module:
        return QuantileCritics(
            self._inputs,
            hidden,
            self._actions.count,
            self._n_critics,
            self._n_quantiles,
            layer_norm=layer_norm,
        )

    def _critic_loss(self, batch: Batch, values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the quantile Huber loss, and keep the TD errors of the mean values."""
        self._errors = values.mean(dim=1) - target.mean(dim=0)
        errors = target - values.unsqueeze(2)  # (critics, quantiles, target quantiles, B)
        size = errors.detach().abs()
        # The derivative of the Huber loss with threshold 1 is the error, clipped to [-1, 1].
        huber = torch.where(size > 1, errors.abs() - 0.5, 0.5 * errors.square())
        weights = (self._levels.view(-1, 1, 1) - (errors.detach() < 0).float()).abs()
        return (torch.as_tensor(batch.weights) * weights * huber).mean()

    def _q_values(self, values: torch.Tensor) -> torch.Tensor:
        return values.mean(dim=(0, 1))

    @torch.no_grad()
    def _target_values(
        self, batch: Batch, next_inputs: NetworkInput, temperature: torch.Tensor
    ) -> torch.Tensor:
        """Return the quantiles of the targets, (K, B): the smallest ones of all target critics together."""
        actions, entropy = self._sample(next_inputs)
        quantiles = self._targets(next_inputs, actions).flatten(0, 1).sort(dim=0).values
        next_values = quantiles[: self._n_target_quantiles] + temperature * entropy
        return bellman_target(batch, next_values).clamp(min=self._lowest)


class QuantileCritics(nn.Module):
    """Critics with different initial weights, each of which estimates quantiles of the return.

    Args:
        inputs: Determines the size of the input.
        hidden: Units of each hidden layer.
        num_actions: Length of an action vector, A.
        n_critics: Number of critics, C.
        n_quantiles: Quantiles of each critic, Q.
        layer_norm: As in `Network`.
    """

    def __init__(
        self,
        inputs: GoalInputs,
        hidden: Sequence[int],
        num_actions: int,
        n_critics: int,
        n_quantiles: int,
        *,
        layer_norm: bool,
    ) -> None:
        super().__init__()
        self.critics = nn.ModuleList(
            Network(inputs, hidden, n_quantiles, num_actions=num_actions, layer_norm=layer_norm)
            for _ in range(n_critics)
        )

    def forward(self, inputs: NetworkInput, actions: torch.Tensor) -> torch.Tensor:
        """Return the quantiles of all critics, (C, Q, B), for B inputs and (B, A) actions."""
        return torch.stack([critic(inputs, actions).T for critic in self.critics])
