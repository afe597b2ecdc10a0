"""Implicit Q-learning for goals: offline training on recorded data (Kostrikov et al. 2021, arXiv 2110.06169).

Values are learned for recorded actions only: the value of a state and goal is an upper expectile of the Q
values of its recorded actions. The policy imitates recorded actions, weighted by their advantage. As in
OGBench (Park et al. 2024, arXiv 2410.20092), values and policy can use batches with different goals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.agent import (
    Agent,
    BoxActions,
    bellman_target,
    gradient_step,
    seeded_weights,
)
from her_agents.networks import Network, TwinCritics

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import spaces

    from her_agents.networks import NetworkInput
    from her_wrappers import Batch


class IQL(Agent):
    """IQL: two critics, a state value, and an actor that imitates recorded actions.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: A Box with bounds.
        hidden: Units of each hidden layer.
        learning_rate: Step size of Adam.
        expectile: Expectile of the Q values, in (0.5, 1). Near 1, the value of a state is that of its best
            recorded action.
        temperature: Weight of the advantage in the imitation loss. With larger weights, the actor imitates
            mainly actions with high Q values.
        tau: Weight of the online parameters in the Polyak update of the target critics.
        seed: Seed of the weights.

    Raises:
        TypeError: ``action_space`` is not a Box with bounds, or observations or goals are neither vectors nor
            images.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        hidden: Sequence[int] = (64, 64),
        learning_rate: float = 1e-3,
        expectile: float = 0.9,
        temperature: float = 10.0,
        tau: float = 0.01,
        seed: int = 0,
    ) -> None:
        self._actions = BoxActions(action_space, "iql")
        super().__init__(observation_space, seed, tau=tau)
        count = self._actions.count
        with seeded_weights(seed):
            self._critics = TwinCritics(self._inputs, hidden, count)
            self._value = Network(self._inputs, hidden, 1)
            self._actor = nn.Sequential(Network(self._inputs, hidden, count), nn.Tanh())
        self._targets = self._make_target(self._critics)
        trained = nn.ModuleDict({"critics": self._critics, "value": self._value, "actor": self._actor})
        self._optimizer = torch.optim.Adam(trained.parameters(), learning_rate, fused=True)
        self._modules |= {"networks": trained, "targets": self._targets, "optimizer": self._optimizer}
        self._expectile, self._temperature = expectile, temperature

    def _choose(self, inputs: NetworkInput, explore: bool) -> np.ndarray:
        """Return the actions of the actor, without exploration."""
        return self._actions.to_env(self._actor(inputs))

    def update(self, batch: Batch, policy_batch: Batch | None = None) -> dict[str, float]:
        """Take one gradient step with the critics, the state value and the actor.

        Args:
            batch: B transitions for the critics and the state value.
            policy_batch: Transitions for the actor; by default ``batch``.

        Returns:
            ``critic_loss``, ``value_loss``, ``actor_loss``, and ``q_mean``, the mean Q value of
            ``batch``.
        """
        inputs, next_inputs = self._inputs.of_batch(batch)
        losses, q_mean = self._value_losses(batch, inputs, next_inputs)
        if policy_batch is not None:
            batch, inputs = policy_batch, self._inputs(policy_batch.observations)
        losses["actor_loss"] = self._actor_loss(batch, inputs)
        gradient_step(self._optimizer, sum(losses.values(), torch.zeros(())))
        self._update_target()
        return {name: loss.item() for name, loss in losses.items()} | {"q_mean": q_mean}

    def _value_losses(
        self, batch: Batch, inputs: NetworkInput, next_inputs: NetworkInput
    ) -> tuple[dict[str, torch.Tensor], float]:
        actions = self._actions.from_env(batch.actions)
        with torch.no_grad():
            target = bellman_target(batch, self._value(next_inputs).squeeze(1))
        values = self._critics(inputs, actions)
        errors = values - target
        self._errors = errors
        advantage = self._target_q(inputs, actions) - self._value(inputs).squeeze(1)
        asymmetry = torch.where(advantage > 0, self._expectile, 1 - self._expectile)
        losses = {"critic_loss": errors.square(), "value_loss": asymmetry * advantage.square()}
        weights = torch.as_tensor(batch.weights)
        return {name: (weights * loss).mean() for name, loss in losses.items()}, values.detach().mean().item()

    def _actor_loss(self, batch: Batch, inputs: NetworkInput) -> torch.Tensor:
        actions = self._actions.from_env(batch.actions)
        with torch.no_grad():
            advantage = self._target_q(inputs, actions) - self._value(inputs).squeeze(1)
            weight = torch.exp(self._temperature * advantage).clamp(max=100)
        error = (self._actor(inputs) - actions).square().mean(dim=1)
        loss: torch.Tensor = (torch.as_tensor(batch.weights) * weight * error).mean()
        return loss

    @torch.no_grad()
    def _target_q(self, inputs: NetworkInput, actions: torch.Tensor) -> torch.Tensor:
        """Return the minimum of the two target critics, (B,)."""
        values: torch.Tensor = self._targets(inputs, actions).amin(dim=0)
        return values
