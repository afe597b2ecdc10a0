"""TD3 for goal environments (Fujimoto et al. 2018), and DDPG (Lillicrap et al. 2016), a preset of TD3.

As in the HER paper and in Plappert et al. 2018, targets are clipped to the range of returns of rewards in
[-1, 0], squares of the actions are penalized, inputs are normalized, and exploration is Gaussian in most
steps and uniform in the others. As in Stable-Baselines3, DDPG is TD3 with one critic, without noise on the
actions in targets, and without a delay of the actor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.agent import Agent, BoxActions, cloning_loss, gradient_step
from her_agents.networks import Critics
from her_agents.options import DDPGOptions, TD3Options

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_agents.networks import NetworkInput
    from her_wrappers import Batch


class TD3(Agent):
    """TD3: a deterministic actor that maximizes the first of two critics; targets use the minimum of both.

    The arguments are those of `Agent`, with the options `her_agents.options.TD3Options`. The action space is
    a Box with bounds.
    """

    options: TD3Options
    options_type = TD3Options

    def _build(self, action_space: spaces.Space[Any]) -> None:
        self._actions = BoxActions(action_space, self.algo, self.device)
        count = self._actions.count
        self._actor = nn.Sequential(self._make_network(count), nn.Tanh())
        self._critics = Critics(self._make_network(1, count) for _ in range(self.options.n_critics))
        self._networks = nn.ModuleDict({"actor": self._actor, "critics": self._critics})
        self._targets = self._make_target(self._networks)
        self._target_update_interval *= self.options.policy_delay
        self._actor_optimizer, self._critic_optimizer = self._adam(self._actor), self._adam(self._critics)
        self._modules |= {
            "networks": self._networks,
            "targets": self._targets,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
        }

    def _choose(self, inputs: NetworkInput, explore: bool) -> torch.Tensor:
        actions = self._actor(inputs)
        if explore:
            noise = torch.randn(actions.shape, **self._random)
            uniform = 2 * torch.rand(actions.shape, **self._random) - 1
            is_uniform = torch.rand(len(actions), 1, **self._random) < self.options.epsilon
            noisy = (actions + self.options.noise * noise).clamp(-1, 1)
            actions = torch.where(is_uniform, uniform, noisy)
        return self._actions.to_env(actions)

    def update(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Take one gradient step with the critics, and in every ``policy_delay``-th call one with the actor.

        Args:
            batch: B transitions, as NumPy arrays or tensors.

        Returns:
            ``critic_loss``, ``actor_loss`` if the actor took a step, and ``q_mean``, the mean Q value of the
            batch.
        """
        inputs, next_inputs = self._inputs.of_batch(batch)
        target = self._target_values(batch, next_inputs)
        taken = self._actions.from_env(batch.actions)
        values = self._critics(inputs, taken)
        critic_loss = self._squared_loss(batch, values, target)
        gradient_step(self._critic_optimizer, critic_loss)
        measured = {"critic_loss": critic_loss.detach(), "q_mean": values.detach().mean()}

        if (self._updates + 1) % self.options.policy_delay == 0:
            actions = self._actor(inputs)
            penalty = self.options.action_l2 * actions.square().mean()
            q_values = self._critics[0](inputs, actions).T
            actor_loss = -q_values.mean() + penalty
            if self.options.bc_weight:
                is_better = (values[0] > q_values).detach().squeeze(0)
                cloning = cloning_loss(self._tensor(batch.is_demonstration), taken, actions, is_better)
                actor_loss = actor_loss + self.options.bc_weight * cloning
            gradient_step(self._actor_optimizer, actor_loss, inputs=list(self._actor.parameters()))
            measured["actor_loss"] = actor_loss.detach()
        self._update_target()
        return measured

    @torch.no_grad()
    def _target_values(self, batch: Batch, next_inputs: NetworkInput) -> torch.Tensor:
        """Return the targets, (B,), with the minimum of the target critics for noisy next actions."""
        actions = self._targets["actor"](next_inputs)
        if self.options.target_noise > 0:
            noise = self.options.target_noise * torch.randn(actions.shape, **self._random)
            largest = self.options.target_noise_clip
            actions = (actions + noise.clamp(-largest, largest)).clamp(-1, 1)
        next_value = self._targets["critics"](next_inputs, actions).amin(dim=(0, 1))
        return self._bellman_target(batch, next_value)


class DDPG(TD3):
    """DDPG: a deterministic actor that maximizes the value of its critic; a preset of `TD3`.

    The arguments are those of `TD3`, with the options `her_agents.options.DDPGOptions`.
    """

    options_type = DDPGOptions
