"""Implicit Q-learning for goals, from recorded data alone (Kostrikov et al. 2021, arXiv 2110.06169).

Values are learned from actions that are in the data only: the value of a state and goal is an upper expectile
of what its recorded actions are worth. The policy imitates recorded actions, the better ones more. As OGBench
does (Park et al. 2024, arXiv 2410.20092), values and policy may get batches of their own, with other goals.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from examples.agents.networks import (
    Agent,
    BoxActions,
    Network,
    Seen,
    TwinCritics,
    descend,
    follow,
    seeded_weights,
)

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import spaces

    from her_wrappers import Batch


class IQL(Agent):
    """Two critics, a state value and an actor that imitates.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: A Box with bounds.
        hidden: Units of each hidden layer.
        learning_rate: Of Adam.
        expectile: Of the action values, in (0.5, 1): the nearer to 1, the more a state is worth what the best
            recorded action there is.
        temperature: How much more the actor imitates the better actions.
        tau: Share by which the target critics move towards the others at each update.
        seed: Seeds the weights.

    Raises:
        TypeError: The actions are no Box with bounds, or observations or goals neither vectors nor images.
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
        super().__init__(observation_space, seed)
        count = self._actions.count
        with seeded_weights(seed):
            self._critics = TwinCritics(self._inputs, hidden, count)
            self._value = Network(self._inputs, hidden, 1)
            self._actor = nn.Sequential(Network(self._inputs, hidden, count), nn.Tanh())
        self._targets = copy.deepcopy(self._critics).requires_grad_(False)
        learned = nn.ModuleDict({"critics": self._critics, "value": self._value, "actor": self._actor})
        self._optimizer = torch.optim.Adam(learned.parameters(), learning_rate, fused=True)
        self._parts |= {"networks": learned, "targets": self._targets, "optimizer": self._optimizer}
        self._expectile, self._temperature, self._tau = expectile, temperature, tau

    def _choose(self, seen: Seen, explore: bool) -> np.ndarray:
        """Return the actor's actions: who learns from records has nothing to explore."""
        return self._actions.to_env(self._actor(seen))

    def update(self, batch: Batch, for_policy: Batch | None = None) -> dict[str, float]:
        """Take one step of gradient descent.

        Args:
            batch: Transitions whose goals the values are to be learned for.
            for_policy: Transitions whose goals the actor is to be learned for; without, the same.

        Returns:
            ``critic_loss``, ``value_loss``, ``actor_loss``, and ``q_mean``, the mean value of the actions
            taken.
        """
        batch = batch.to_torch()
        self._inputs.learn(batch.observations)
        losses, q_mean = self._value_losses(batch)
        losses["actor_loss"] = self._actor_loss(batch if for_policy is None else for_policy.to_torch())
        descend(self._optimizer, sum(losses.values(), torch.zeros(())))
        follow(self._targets, self._critics, self._tau)
        return {name: loss.item() for name, loss in losses.items()} | {"q_mean": q_mean}

    def _value_losses(self, batch: Batch) -> tuple[dict[str, torch.Tensor], float]:
        seen, actions = self._inputs(batch.observations), self._actions.from_env(batch.actions)
        with torch.no_grad():
            after = self._value(self._inputs(batch.next_observations)).squeeze(1)
            target = batch.rewards + batch.discounts * after
        values = self._critics(seen, actions)
        errors = values - target
        self.td_errors = errors.detach().abs().mean(dim=0).numpy()
        ahead = self._worth(seen, actions) - self._value(seen).squeeze(1)
        share = torch.where(ahead > 0, self._expectile, 1 - self._expectile)
        losses = {"critic_loss": errors.square(), "value_loss": share * ahead.square()}
        means = {name: (batch.weights * loss).mean() for name, loss in losses.items()}
        return means, values.mean().item()

    def _actor_loss(self, batch: Batch) -> torch.Tensor:
        seen, actions = self._inputs(batch.observations), self._actions.from_env(batch.actions)
        with torch.no_grad():
            ahead = self._worth(seen, actions) - self._value(seen).squeeze(1)
            weight = torch.exp(self._temperature * ahead).clamp(max=100)
        missed = (self._actor(seen) - actions).square().mean(dim=1)
        loss: torch.Tensor = (batch.weights * weight * missed).mean()
        return loss

    @torch.no_grad()
    def _worth(self, seen: Seen, actions: torch.Tensor) -> torch.Tensor:
        """Return what actions are worth, (B,): the lower of two opinions."""
        worth: torch.Tensor = self._targets(seen, actions).amin(dim=0)
        return worth
