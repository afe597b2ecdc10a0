"""CrossQ (Bhatt et al. 2024, https://arxiv.org/abs/1902.05605) as a subclass of SAC.

her train --recipe fetch_push --algo benchmarks/studies/crossq.py:CrossQ

The critics have batch renormalization (Ioffe 2017, https://arxiv.org/abs/1702.03275), and no target networks:
the states before and after the steps share one forward pass. Adam has beta1 = 0.5, as in the authors' code.
Observations must be vectors, and the temperature constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.algorithms.networks import NetworkInput
from her_agents.algorithms.sac import SAC

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers import Batch

MOMENTUM, WARM_UP, R_MAX, D_MAX, EPSILON = 0.99, 100_000, 3.0, 5.0, 1e-3


class BatchRenorm(nn.Module):
    """Batch renormalization of (B, width) inputs; batch normalization in the first `WARM_UP` updates."""

    mean: torch.Tensor
    variance: torch.Tensor
    updates: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self.register_buffer("updates", torch.tensor(0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Normalize by the batch while training, and by the running statistics otherwise."""
        if not self.training:
            normalized = (inputs - self.mean) * (self.variance + EPSILON).rsqrt()
            return normalized * self.weight + self.bias
        mean, variance = inputs.mean(0), inputs.var(0, unbiased=False)
        normalized = (inputs - mean) * (variance + EPSILON).rsqrt()
        with torch.no_grad():
            running = (self.variance + EPSILON).sqrt()
            if self.updates > WARM_UP:
                ratio = ((variance + EPSILON).sqrt() / running).clamp(1 / R_MAX, R_MAX)
                shift = ((mean - self.mean) / running).clamp(-D_MAX, D_MAX)
            else:
                ratio, shift = torch.ones_like(mean), torch.zeros_like(mean)
            self.mean.lerp_(mean, 1 - MOMENTUM)
            self.variance.lerp_(variance, 1 - MOMENTUM)
            self.updates += 1
        return (normalized * ratio + shift) * self.weight + self.bias


class CrossQ(SAC):
    """SAC with batch renormalization in the critics, and without target networks."""

    def make_network(self, num_outputs: int, num_actions: int = 0) -> nn.Module:
        """Return a network, for critics with batch renormalization of the input and of each hidden layer."""
        network: Any = super().make_network(num_outputs, num_actions)
        if num_actions:
            layers: list[nn.Module] = [BatchRenorm(network.layers[0].in_features)]
            for layer in network.layers:
                layers.append(nn.ReLU() if isinstance(layer, nn.ReLU) else layer)
                if isinstance(layer, nn.ReLU):
                    layers.append(BatchRenorm(layers[-2].out_features))  # type: ignore[arg-type] # of nn.Linear
            network.layers = nn.Sequential(*layers).to(self.device)
        return network  # type: ignore[no-any-return]

    def build(self, action_space: spaces.Space[Any]) -> None:
        """Make the parts of SAC; its target networks are not used.

        Raises:
            ValueError: The temperature is learned, or an observation is an image.
        """
        if self.options.learn_temperature or self.inputs.image_shape is not None:
            raise ValueError(
                "CrossQ needs --agent learn_temperature=false, and observations that are vectors"
            )
        super().build(action_space)
        self.critics.eval()  # statistics of batches are used in the critics' update only
        for optimizer in (self._actor_optimizer, self._critic_optimizer):
            for group in optimizer.param_groups:
                group["betas"] = (0.5, 0.999)

    def update(self, batch: Batch, imitate: Any = None) -> dict[str, torch.Tensor]:
        """Take one gradient step with the critics and, every ``policy_delay``-th call, with the actor."""
        inputs, next_inputs = self.inputs.of_batch(batch)
        with torch.no_grad():
            next_actions, entropy = self.sample(next_inputs)
        both = NetworkInput(torch.cat([inputs.vectors, next_inputs.vectors]), None)
        self.critics.train()
        actions = torch.cat([self.actions.from_env(batch.actions), next_actions])
        values, next_values = self.critics(both, actions).chunk(2, dim=2)
        self.critics.eval()
        next_value = next_values.detach().amin(dim=(0, 1)) + self.temperature * entropy
        critic_loss = self.critic_loss(batch, values, self.bellman_target(batch, next_value))
        self.gradient_step(self._critic_optimizer, critic_loss)
        measured = {
            "critic_loss": critic_loss.detach(),
            "temperature": self.temperature,
            "q_mean": values.detach().mean(),
        }
        self._updates += 1
        if self._updates % self.options.policy_delay == 0:
            loss, entropy = self.actor_loss(batch, inputs)
            measured |= {"actor_loss": loss.detach(), "entropy": entropy}
            self.gradient_step(self._actor_optimizer, loss, inputs=list(self.actor.parameters()))
        return measured
