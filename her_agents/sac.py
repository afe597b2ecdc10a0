"""SAC for goal environments (Haarnoja et al. 2018): a stochastic actor whose objective includes its entropy.

The temperature, which is the weight of the entropy, is constant, or learned as in the second SAC paper
(arXiv 1812.05905). The actor is stochastic, so exploration needs neither epsilon nor noise. Values include
entropies and can be above 0, so targets are clipped from below only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.agent import Agent, BoxActions, cloning_loss, gradient_step
from her_agents.networks import Critics
from her_agents.options import SACOptions

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_agents.networks import NetworkInput
    from her_wrappers import Batch

LOG_DEVIATION = (-5.0, 2.0)  # bounds of the log standard deviation of actions before the tanh


class SAC(Agent):
    """SAC: a squashed Gaussian actor, two critics, and a learned or constant weight of the entropy.

    The arguments are those of `Agent`, with the options `her_agents.options.SACOptions`. The action space is
    a Box with bounds.
    """

    options: SACOptions
    options_type = SACOptions

    def _build(self, action_space: spaces.Space[Any]) -> None:
        self._actions = BoxActions(action_space, self.algo, self.device)
        self._bounds = self._bounds[0], math.inf
        self._actor = self._make_network(2 * self._actions.count)
        self._critics = self._make_critics(1)
        self._targets = self._make_target(self._critics)
        log_temperature = torch.tensor(math.log(self.options.temperature), device=self.device)
        self._temperature = nn.ParameterDict({"log": log_temperature})
        trained: dict[str, nn.Module] = {"actor": self._actor, "critics": self._critics}
        if self.options.learn_temperature:
            trained["temperature"] = self._temperature
        self._optimizers = {name: self._adam(module) for name, module in trained.items()}
        self._modules |= trained | {"targets": self._targets, "temperature": self._temperature}
        self._modules |= {f"{name}_optimizer": optimizer for name, optimizer in self._optimizers.items()}

    def _make_critics(self, num_outputs: int) -> Critics:
        return Critics(
            self._make_network(num_outputs, self._actions.count) for _ in range(self.options.n_critics)
        )

    def _choose(self, inputs: NetworkInput, explore: bool) -> torch.Tensor:
        if explore:
            return self._actions.to_env(self._sample(inputs)[0])
        mean, _ = self._actor(inputs).chunk(2, dim=1)
        return self._actions.to_env(mean.tanh())

    def update(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Take one gradient step with the critics.

        In every ``policy_delay``-th call, take one with the actor too, and the temperature if it is learned.

        Args:
            batch: B transitions, as NumPy arrays or tensors.

        Returns:
            ``critic_loss``, ``temperature``, and ``q_mean``, the mean Q value of the batch; if the actor took
            a step, ``actor_loss`` and ``entropy`` too.
        """
        inputs, next_inputs = self._inputs.of_batch(batch)
        temperature = self._temperature["log"].exp().detach()
        target = self._target_values(batch, next_inputs, temperature)
        taken = self._actions.from_env(batch.actions)
        values = self._critics(inputs, taken)
        critic_loss = self._critic_loss(batch, values, target)
        gradient_step(self._optimizers["critics"], critic_loss)
        measured = {
            "critic_loss": critic_loss.detach(),
            "temperature": temperature,
            "q_mean": values.detach().mean(),
        }

        if (self._updates + 1) % self.options.policy_delay == 0:
            actions, entropy = self._sample(inputs)
            q_values = self._q_values(self._critics(inputs, actions))
            actor_loss = -(q_values + temperature * entropy).mean()
            if self.options.bc_weight:
                mean, _ = self._actor(inputs).chunk(2, dim=1)
                q_taken = self._q_values(values.detach())
                cloning = cloning_loss(
                    self._tensor(batch.is_demonstration), taken, mean.tanh(), q_taken > q_values.detach()
                )
                actor_loss = actor_loss + self.options.bc_weight * cloning
            gradient_step(self._optimizers["actor"], actor_loss, inputs=list(self._actor.parameters()))
            if self.options.learn_temperature:
                wanted = self.options.target_entropy
                excess = entropy.detach().mean() - (-self._actions.count if wanted is None else wanted)
                gradient_step(self._optimizers["temperature"], self._temperature["log"] * excess)
            measured |= {"actor_loss": actor_loss.detach(), "entropy": entropy.detach().mean()}
        self._update_target()
        return measured

    def _critic_loss(self, batch: Batch, values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss of the critics' values (C, K, B), and keep their TD errors."""
        return self._squared_loss(batch, values, target)

    def _q_values(self, values: torch.Tensor) -> torch.Tensor:
        """Return the Q values that the actor maximizes, (B,), from the critics' values (C, K, B)."""
        return values.amin(dim=(0, 1))

    @torch.no_grad()
    def _target_values(
        self, batch: Batch, next_inputs: NetworkInput, temperature: torch.Tensor
    ) -> torch.Tensor:
        """Return the targets, (B,), with the minimum of the target critics plus the weighted entropy."""
        actions, entropy = self._sample(next_inputs)
        next_value = self._targets(next_inputs, actions).amin(dim=(0, 1)) + temperature * entropy
        return self._bellman_target(batch, next_value)

    def _sample(self, inputs: NetworkInput) -> tuple[torch.Tensor, torch.Tensor]:
        """Return sampled actions (B, A), and the negative logarithms of their densities (B,)."""
        mean, log_deviation = self._actor(inputs).chunk(2, dim=1)
        log_deviation = log_deviation.clamp(*LOG_DEVIATION)
        noise = torch.randn(mean.shape, **self._random)
        raw = mean + log_deviation.exp() * noise
        # The last term is log(1 - tanh(raw)**2), which float32 cannot compute directly far from 0.
        log_density = -0.5 * noise.square() - log_deviation - 0.5 * math.log(2 * math.pi)
        log_density = log_density - 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        return raw.tanh(), -log_density.sum(dim=1)
