"""Implicit Q-learning for goals: learning from recorded data (Kostrikov et al. 2021, arXiv 2110.06169).

Values are learned for recorded actions only: the value of a state and goal is an upper expectile of the Q
values of its recorded actions. The policy imitates recorded actions, weighted by their advantage. As in
OGBench (Park et al. 2024, arXiv 2410.20092), the values can be trained on one batch and the policy on another
batch, whose goals were chosen in a different way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.algorithms.base import Agent, BoxActions
from her_agents.algorithms.networks import Critics
from her_agents.algorithms.options import IQLOptions

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_agents.algorithms.networks import NetworkInput
    from her_wrappers import Batch

LARGEST_WEIGHT = 100.0  # of a recorded action in the imitation loss


class IQL(Agent):
    """IQL: two critics, a state value, and an actor that imitates recorded actions.

    IQL takes the arguments of `Agent`, the fields of `her_agents.IQLOptions`, and a bounded Box of actions.
    """

    options: IQLOptions
    options_type = IQLOptions

    def build(self, action_space: spaces.Space[Any]) -> None:
        """Make the critics, the state value and the actor, and a single optimizer for all of them."""
        self.actions = BoxActions(action_space, self.algo, self.device)
        count = self.actions.count
        self.critics = Critics(self.make_network(1, count) for _ in range(2))
        # Without critic_keys, a make_network of a subclass needs no parameter is_critic.
        self.value = self.make_network(1, **({"is_critic": True} if self.inputs.critic else {}))
        self.actor = nn.Sequential(self.make_network(count), nn.Tanh())
        self.targets = self.make_target(self.critics)
        trained = nn.ModuleDict({"critics": self.critics, "value": self.value, "actor": self.actor})
        self._optimizer = self.make_optimizer(trained)
        self.modules |= {"networks": trained, "targets": self.targets, "optimizer": self._optimizer}

    def choose(self, inputs: NetworkInput, explore: bool) -> torch.Tensor:
        """Return the actions of the actor; ``explore`` is ignored, since IQL does not explore."""
        return self.actions.to_env(self.actor(inputs))

    def update(self, batch: Batch, policy_batch: Batch | None = None) -> dict[str, torch.Tensor]:
        """Update the critics, the state value and the actor by one gradient step on the sum of their losses.

        Args:
            batch: B transitions for the critics and the state value.
            policy_batch: Transitions for the actor, by default ``batch``. Their goals may have been chosen
                with another strategy than the goals of ``batch``.
        """
        inputs, next_inputs = self.inputs.of_batch(batch)
        actions, weights = self.actions.from_env(batch.actions), self.as_tensor(batch.weights)
        with torch.no_grad():
            target = self.bellman_target(batch, self.value(next_inputs).squeeze(1))
        values = self.critics(inputs, actions)
        critic_loss = self.critic_loss(batch, values, target)
        advantage = self._advantage(inputs, actions)
        asymmetry = torch.where(advantage > 0, self.options.expectile, 1 - self.options.expectile)
        value_loss = (weights * (asymmetry * advantage.square())).mean()

        if policy_batch is not None:
            inputs = self.inputs(policy_batch.observations, shift=True)
            actions = self.actions.from_env(policy_batch.actions)
            weights = self.as_tensor(policy_batch.weights)
            advantage = self._advantage(inputs, actions)
        imitated = torch.exp(self.options.temperature * advantage.detach()).clamp(max=LARGEST_WEIGHT)
        distance = (self.actor(inputs) - actions).square().mean(dim=1)
        actor_loss = (weights * imitated * distance).mean()
        self.gradient_step(self._optimizer, critic_loss + value_loss + actor_loss)
        self.update_targets()
        return {
            "critic_loss": critic_loss.detach(),
            "value_loss": value_loss.detach(),
            "actor_loss": actor_loss.detach(),
            "q_mean": values.detach().mean(),
        }

    def _advantage(self, inputs: NetworkInput, actions: torch.Tensor) -> torch.Tensor:
        """Return the minimum of the two target critics minus the state value, (B,)."""
        with torch.no_grad():
            q_values = self.targets(inputs, actions).amin(dim=(0, 1))
        return q_values - self.value(inputs).squeeze(1)  # type: ignore[no-any-return]
