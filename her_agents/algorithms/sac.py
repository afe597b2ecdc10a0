"""SAC for goal environments (Haarnoja et al. 2018): a stochastic actor whose objective includes its entropy.

The temperature, which is the weight of the entropy, is either constant or learned as in the second SAC paper
(arXiv 1812.05905). The actor is stochastic, so exploration needs neither epsilon nor noise. Rewards in
[-1, 0] bound returns to [-1 / (1 - gamma), 0], but the Q values of SAC also include entropies and can be
above 0. So targets are clipped from below only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.algorithms.base import Agent, BoxActions, cloning_loss
from her_agents.algorithms.networks import Critics
from her_agents.algorithms.options import SACOptions

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_agents.algorithms.networks import NetworkInput
    from her_wrappers import Batch

LOG_DEVIATION = (-5.0, 2.0)  # bounds of the log standard deviation of actions before the tanh


class SAC(Agent):
    """SAC: a squashed Gaussian actor, two critics, and a learned or constant weight of the entropy.

    SAC takes the arguments of `Agent`, the fields of `her_agents.SACOptions`, and a bounded Box of actions.
    """

    options: SACOptions
    options_type = SACOptions

    def build(self, action_space: spaces.Space[Any]) -> None:
        """Make the actor, the critics, the targets and the temperature."""
        self.actions = BoxActions(action_space, self.algo, self.device)
        self._bounds = self._bounds[0], math.inf
        self.actor = self.make_network(2 * self.actions.count)
        self.critics = self.make_critics(1)
        self.targets = self.make_target(self.critics)
        log_temperature = torch.tensor(math.log(self.options.temperature), device=self.device)
        self._temperature = nn.ParameterDict({"log": log_temperature})
        with_actor = [self.actor, *[self._temperature] * self.options.learn_temperature]
        self._actor_optimizer = self.make_optimizer(*with_actor)
        self._critic_optimizer = self.make_optimizer(self.critics)
        self.modules |= {
            "actor": self.actor,
            "critics": self.critics,
            "targets": self.targets,
            "temperature": self._temperature,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
        }

    def make_critics(self, num_outputs: int) -> Critics:
        """Return the critics, each with ``num_outputs`` outputs."""
        return Critics(
            self.make_network(num_outputs, self.actions.count) for _ in range(self.options.n_critics)
        )

    def choose(self, inputs: NetworkInput, explore: bool) -> torch.Tensor:
        """Return the mean actions or, while exploring, sampled actions."""
        if explore:
            return self.actions.to_env(self.sample(inputs)[0])
        mean, _ = self.actor(inputs).chunk(2, dim=1)
        return self.actions.to_env(mean.tanh())

    def update(self, batch: Batch, imitate: Any = None) -> dict[str, torch.Tensor]:
        """Update the critics by one gradient step.

        Every ``policy_delay``-th call also updates the actor and, if the temperature is learned, the
        temperature. ``imitate`` has no effect unless ``bc_weight`` is above 0.
        """
        inputs, next_inputs = self.inputs.of_batch(batch)
        target = self.target_values(batch, next_inputs)
        values = self.critics(inputs, self.actions.from_env(batch.actions))
        critic_loss = self.critic_loss(batch, values, target)
        self.gradient_step(self._critic_optimizer, critic_loss)
        measured = {
            "critic_loss": critic_loss.detach(),
            "temperature": self.temperature,
            "q_mean": values.detach().mean(),
        }

        if (self.updates + 1) % self.options.policy_delay == 0:
            imitated = {} if imitate is None or not self.options.bc_weight else {"imitate": imitate}
            actor_loss, entropy = self.actor_loss(batch, inputs, **imitated)
            measured |= {"actor_loss": actor_loss.detach(), "entropy": entropy}
            trained = list(self.actor.parameters())
            if self.options.learn_temperature:
                wanted = self.options.target_entropy
                excess = entropy - (-self.actions.count if wanted is None else wanted)
                actor_loss = actor_loss + self._temperature["log"] * excess
                trained.append(self._temperature["log"])
            self.gradient_step(self._actor_optimizer, actor_loss, inputs=trained)
        self.update_targets()
        return measured

    @property
    def temperature(self) -> torch.Tensor:
        """The weight of the entropy, 0-d."""
        return self._temperature["log"].detach().exp()  # type: ignore[no-any-return]

    def actor_loss(
        self, batch: Batch, inputs: NetworkInput, imitate: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of the actor, 0-d, and the mean entropy of its actions, 0-d without gradient.

        ``imitate``, as in `update`, is passed only if ``bc_weight`` is above 0.
        """
        actions, entropy = self.sample(inputs)
        q_values = self.q_values(self.critics(inputs, actions))
        loss = -(q_values + self.temperature * entropy).mean()
        if imitate is not None:
            taken = self.actions.from_env(batch.actions)
            is_better = self.q_values(self.critics(inputs, taken)) > q_values
            mean, _ = self.actor(inputs).chunk(2, dim=1)
            cloning = cloning_loss(self.as_tensor(imitate), taken, mean.tanh(), is_better)
            loss = loss + self.options.bc_weight * cloning
        return loss, entropy.detach().mean()

    def q_values(self, values: torch.Tensor) -> torch.Tensor:
        """Return the minimum over the values of C critics, (C, 1, B) -> (B,), which the actor maximizes."""
        return values.amin(dim=(0, 1))

    @torch.no_grad()
    def target_values(self, batch: Batch, next_inputs: NetworkInput) -> torch.Tensor:
        """Return the targets, (B,), from the minimum of the target critics plus the weighted entropy."""
        actions, entropy = self.sample(next_inputs)
        next_value = self.targets(next_inputs, actions).amin(dim=(0, 1)) + self.temperature * entropy
        return self.bellman_target(batch, next_value)

    def sample(self, inputs: NetworkInput) -> tuple[torch.Tensor, torch.Tensor]:
        """Return sampled actions (B, A), and the negative logarithms of their densities (B,)."""
        mean, log_deviation = self.actor(inputs).chunk(2, dim=1)
        log_deviation = log_deviation.clamp(*LOG_DEVIATION)
        noise = torch.randn(mean.shape, dtype=mean.dtype, **self._random)
        raw = mean + log_deviation.exp() * noise
        # The last term is log(1 - tanh(raw)**2), which float32 cannot compute directly far from 0.
        log_density = -0.5 * noise.square() - log_deviation - 0.5 * math.log(2 * math.pi)
        log_density = log_density - 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        return raw.tanh(), -log_density.sum(dim=1)
