"""TD3 for goal environments (Fujimoto et al. 2018), and DDPG (Lillicrap et al. 2016), a preset of TD3.

As in the HER paper and in Plappert et al. 2018, squared actions are penalized, inputs are normalized, and
targets are clipped to [-1 / (1 - gamma), 0], the range of returns if all rewards lie in [-1, 0]. Exploration
adds Gaussian noise to most actions, and replaces the other actions by uniformly random actions. As in
Stable-Baselines3, DDPG is TD3 with one critic, without noise on the actions in targets, and without a delay
of the actor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.algorithms.base import Agent, BoxActions, cloning_loss
from her_agents.algorithms.networks import Critics
from her_agents.algorithms.options import DDPGOptions, TD3Options

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_agents.algorithms.networks import NetworkInput
    from her_wrappers import Batch


class TD3(Agent):
    """TD3: a deterministic actor that maximizes the first critic; targets use the minimum of both critics.

    TD3 takes the arguments of `Agent`, the fields of `her_agents.TD3Options`, and a bounded Box of actions.
    """

    options: TD3Options
    options_type = TD3Options

    def build(self, action_space: spaces.Space[Any]) -> None:
        """Make the actor, the critics, the target networks and the optimizers."""
        self.actions = BoxActions(action_space, self.algo, self.device)
        count = self.actions.count
        self.actor = nn.Sequential(self.make_network(count), nn.Tanh())
        self.critics = Critics(self.make_network(1, count) for _ in range(self.options.n_critics))
        self._networks = nn.ModuleDict({"actor": self.actor, "critics": self.critics})
        self.targets = self.make_target(self._networks)
        self._target_update_interval *= self.options.policy_delay
        self._actor_optimizer = self.make_optimizer(self.actor)
        self._critic_optimizer = self.make_optimizer(self.critics)
        self.modules |= {
            "networks": self._networks,
            "targets": self.targets,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
        }

    def choose(self, inputs: NetworkInput, explore: bool) -> torch.Tensor:
        """Return the actor's actions; to explore, add noise or, with probability epsilon, act randomly."""
        actions = self.actor(inputs)
        if explore:
            noise = torch.randn(actions.shape, dtype=actions.dtype, **self._random)
            uniform = 2 * torch.rand(actions.shape, dtype=actions.dtype, **self._random) - 1
            random = torch.rand(len(actions), 1, dtype=actions.dtype, **self._random)
            noisy = (actions + self.options.noise * noise).clamp(-1, 1)
            actions = torch.where(random < self.options.epsilon, uniform, noisy)
        return self.actions.to_env(actions)

    def update(self, batch: Batch, imitate: Any = None) -> dict[str, torch.Tensor]:
        """Update the critics and, in every ``policy_delay``-th call, the actor, by one gradient step each.

        ``imitate`` has no effect unless ``bc_weight`` is above 0.
        """
        inputs, next_inputs = self.inputs.of_batch(batch)
        target = self.target_values(batch, next_inputs)
        values = self.critics(inputs, self.actions.from_env(batch.actions))
        critic_loss = self.critic_loss(batch, values, target)
        self.gradient_step(self._critic_optimizer, critic_loss)
        measured = {"critic_loss": critic_loss.detach(), "q_mean": values.detach().mean()}

        if (self.updates + 1) % self.options.policy_delay == 0:
            imitated = {} if imitate is None or not self.options.bc_weight else {"imitate": imitate}
            actor_loss = self.actor_loss(batch, inputs, **imitated)
            self.gradient_step(self._actor_optimizer, actor_loss, inputs=list(self.actor.parameters()))
            measured["actor_loss"] = actor_loss.detach()
        self.update_targets()
        return measured

    def actor_loss(self, batch: Batch, inputs: NetworkInput, imitate: Any = None) -> torch.Tensor:
        """Return the loss of the actor, 0-d; ``imitate`` is passed only if ``bc_weight`` is above 0."""
        actions = self.actor(inputs)
        q_values = self.critics[0](inputs, actions).squeeze(1)
        loss: torch.Tensor = -q_values.mean() + self.options.action_l2 * actions.square().mean()
        if imitate is not None:
            taken = self.actions.from_env(batch.actions)
            is_better = self.critics[0](inputs, taken).squeeze(1) > q_values
            cloning = cloning_loss(self.as_tensor(imitate), taken, actions, is_better)
            loss = loss + self.options.bc_weight * cloning
        return loss

    @torch.no_grad()
    def target_values(self, batch: Batch, next_inputs: NetworkInput) -> torch.Tensor:
        """Return the targets, (B,), from the minimum of the target critics for noisy next actions."""
        actions = self.targets["actor"](next_inputs)
        if self.options.target_noise > 0:
            noise = torch.randn(actions.shape, dtype=actions.dtype, **self._random)
            noise *= self.options.target_noise
            largest = self.options.target_noise_clip
            actions = (actions + noise.clamp(-largest, largest)).clamp(-1, 1)
        next_value = self.targets["critics"](next_inputs, actions).amin(dim=(0, 1))
        return self.bellman_target(batch, next_value)


class DDPG(TD3):
    """DDPG: a preset of `TD3` with one critic, without noise in targets, and without a delay of the actor.

    DDPG takes the arguments of `Agent`. Its ``**options`` are the fields of `her_agents.DDPGOptions`.
    """

    options_type = DDPGOptions
