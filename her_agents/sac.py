"""SAC for goal environments (Haarnoja et al. 2018): a stochastic actor whose objective includes its entropy.

The temperature, which is the weight of the entropy, is constant, or learned as in the second SAC paper
(arXiv 1812.05905). The actor is stochastic, so exploration needs neither epsilon nor noise. Values include
entropies and can be above 0, so targets are clipped from below only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.agent import (
    Agent,
    BoxActions,
    bellman_target,
    gradient_step,
    mean_square,
    seeded_weights,
    target_bounds,
)
from her_agents.networks import Network, TwinCritics

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import spaces

    from her_agents.networks import NetworkInput
    from her_wrappers import Batch

LOG_DEVIATION = (-5.0, 2.0)  # bounds of the log standard deviation of actions before the tanh


class SAC(Agent):
    """SAC: a squashed Gaussian actor, two critics, and a learned or constant weight of the entropy.

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
        clip_targets: Whether to clip targets at the lowest return of rewards in [-1, 0].
        seed: Seed of the weights and of sampled actions.

    Raises:
        TypeError: ``action_space`` is not a Box with bounds, or observations or goals are neither vectors nor
            images.
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
        clip_targets: bool = True,
        seed: int = 0,
    ) -> None:
        self._actions = BoxActions(action_space, type(self).__name__.lower())
        super().__init__(observation_space, seed, tau=tau, target_update_interval=target_update_interval)
        count = self._actions.count
        with seeded_weights(seed):
            self._actor = Network(self._inputs, hidden, 2 * count, layer_norm=layer_norm)
            self._critics = self._make_critics(hidden, layer_norm)
        self._targets = self._make_target(self._critics)
        self._temperature = nn.ParameterDict({"log": torch.tensor(math.log(temperature))})
        self._target_entropy = -float(count) if target_entropy is None else target_entropy
        self._learn_temperature = learn_temperature
        trained: dict[str, nn.Module] = {"actor": self._actor, "critics": self._critics}
        if learn_temperature:
            trained["temperature"] = self._temperature
        self._optimizers = {
            name: torch.optim.Adam(module.parameters(), learning_rate, fused=True)
            for name, module in trained.items()
        }
        self._modules |= trained | {"targets": self._targets, "temperature": self._temperature}
        self._modules |= {f"{name}_optimizer": optimizer for name, optimizer in self._optimizers.items()}
        self._lowest = target_bounds(gamma, clip_targets)[0]

    def _make_critics(self, hidden: Sequence[int], layer_norm: bool) -> nn.Module:
        """Return the critics; their outputs are the argument ``values`` of the methods below."""
        return TwinCritics(self._inputs, hidden, self._actions.count, layer_norm=layer_norm)

    def _choose(self, inputs: NetworkInput, explore: bool) -> np.ndarray:
        if explore:
            return self._actions.to_env(self._sample(inputs)[0])
        mean, _ = self._actor(inputs).chunk(2, dim=1)
        return self._actions.to_env(mean.tanh())

    def update(self, batch: Batch) -> dict[str, float]:
        """Take one gradient step with the critics, the actor, and the temperature if it is learned.

        Args:
            batch: B transitions, as NumPy arrays or tensors on the CPU.

        Returns:
            ``critic_loss``, ``actor_loss``, ``temperature``, ``entropy``, and ``q_mean``, the mean Q
            value of the batch.
        """
        inputs, next_inputs = self._inputs.of_batch(batch)
        temperature = self._temperature["log"].exp().detach()
        target = self._target_values(batch, next_inputs, temperature)
        values = self._critics(inputs, self._actions.from_env(batch.actions))
        critic_loss = self._critic_loss(batch, values, target)
        gradient_step(self._optimizers["critics"], critic_loss)

        actions, entropy = self._sample(inputs)
        actor_loss = -(self._q_values(self._critics(inputs, actions)) + temperature * entropy).mean()
        gradient_step(self._optimizers["actor"], actor_loss, inputs=list(self._actor.parameters()))
        if self._learn_temperature:
            excess = entropy.detach().mean() - self._target_entropy
            gradient_step(self._optimizers["temperature"], self._temperature["log"] * excess)
        self._update_target()
        return {
            "critic_loss": critic_loss.item(),
            "actor_loss": actor_loss.item(),
            "temperature": temperature.item(),
            "entropy": entropy.mean().item(),
            "q_mean": values.detach().mean().item(),
        }

    def _critic_loss(self, batch: Batch, values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss of the critics, and keep their TD errors."""
        errors = values - target
        self._errors = errors
        return mean_square(batch, errors)

    def _q_values(self, values: torch.Tensor) -> torch.Tensor:
        """Return the Q values that the actor maximizes, (B,)."""
        return values.amin(dim=0)

    @torch.no_grad()
    def _target_values(
        self, batch: Batch, next_inputs: NetworkInput, temperature: torch.Tensor
    ) -> torch.Tensor:
        """Return the targets, (B,), with the minimum of both target critics plus the weighted entropy."""
        actions, entropy = self._sample(next_inputs)
        next_value = self._targets(next_inputs, actions).amin(dim=0) + temperature * entropy
        return bellman_target(batch, next_value).clamp(min=self._lowest)

    def _sample(self, inputs: NetworkInput) -> tuple[torch.Tensor, torch.Tensor]:
        """Return sampled actions (B, A), and the negative logarithms of their densities (B,)."""
        mean, log_deviation = self._actor(inputs).chunk(2, dim=1)
        log_deviation = log_deviation.clamp(*LOG_DEVIATION)
        noise = torch.randn(mean.shape, generator=self._generator)
        raw = mean + log_deviation.exp() * noise
        # The last term is log(1 - tanh(raw)**2), which float32 cannot compute directly far from 0.
        log_density = -0.5 * noise.square() - log_deviation - 0.5 * math.log(2 * math.pi)
        log_density = log_density - 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        return raw.tanh(), -log_density.sum(dim=1)
