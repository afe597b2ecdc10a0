"""DDPG for goal environments (Lillicrap et al. 2016), as the HER paper and Plappert et al. 2018 train it.

From those papers: targets clipped to the returns of rewards from -1 to 0, a penalty on the actions' squares,
normalised inputs, and exploration that is Gaussian at most times and uniform at others.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from examples.agents.networks import (
    Agent,
    BoxActions,
    Network,
    Seen,
    descend,
    explored,
    follow,
    seeded_weights,
    target_bounds,
)

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers import Batch


class DDPG(Agent):
    """A deterministic actor that climbs its critic.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: A Box with bounds.
        hidden: Units of each hidden layer.
        learning_rate: Of both Adams.
        gamma: Discount of a step, that of the replay buffer; it bounds clipped targets.
        tau: Share by which the target networks move towards the others at each update.
        action_l2: Weight of the mean square of the actions, scaled to [-1, 1], in the actor's loss.
        epsilon: How often a uniformly random action is explored.
        noise: Standard deviation of the exploration at other times, of actions scaled to [-1, 1].
        clip_targets: Whether to clip targets to the returns of rewards from -1 to 0.
        seed: Seeds the weights and the exploration.

    Raises:
        TypeError: The actions are no Box with bounds, or observations or goals neither vectors nor images.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        hidden: Sequence[int] = (64, 64, 64),
        learning_rate: float = 1e-3,
        gamma: float = 0.98,
        tau: float = 0.05,
        action_l2: float = 1.0,
        epsilon: float = 0.3,
        noise: float = 0.2,
        clip_targets: bool = True,
        seed: int = 0,
    ) -> None:
        self._actions = BoxActions(action_space, "ddpg")
        super().__init__(observation_space, seed)
        count = self._actions.count
        with seeded_weights(seed):
            self._actor = nn.Sequential(Network(self._inputs, hidden, count), nn.Tanh())
            self._critic = Network(self._inputs, hidden, 1, num_actions=count)
        self._networks = nn.ModuleDict({"actor": self._actor, "critic": self._critic})
        self._targets = copy.deepcopy(self._networks).requires_grad_(False)
        self._actor_optimizer = torch.optim.Adam(self._actor.parameters(), learning_rate, fused=True)
        self._critic_optimizer = torch.optim.Adam(self._critic.parameters(), learning_rate, fused=True)
        self._parts |= {
            "networks": self._networks,
            "targets": self._targets,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
        }
        self._tau, self._action_l2 = tau, action_l2
        self._epsilon, self._noise = epsilon, noise
        self._bounds = target_bounds(gamma, clip_targets)

    def _choose(self, seen: Seen, explore: bool) -> np.ndarray:
        actions = self._actor(seen)
        if explore:
            actions = explored(actions, self._epsilon, self._noise, self._generator)
        return self._actions.to_env(actions)

    def update(self, batch: Batch) -> dict[str, float]:
        """Take one step of gradient descent with the critic, then with the actor.

        Args:
            batch: B transitions, as NumPy arrays or torch tensors.

        Returns:
            ``critic_loss``, ``actor_loss``, and ``q_mean``, the mean value of the actions taken.
        """
        batch = batch.to_torch()
        self._inputs.learn(batch.observations)
        seen = self._inputs(batch.observations)
        target = self._target_values(batch)
        value = self._critic(seen, self._actions.from_env(batch.actions)).squeeze(1)
        errors = value - target
        self.td_errors = errors.detach().abs().numpy()
        critic_loss = (batch.weights * errors.square()).mean()
        descend(self._critic_optimizer, critic_loss)

        actions = self._actor(seen)
        actor_loss = -self._critic(seen, actions).mean() + self._action_l2 * actions.square().mean()
        descend(self._actor_optimizer, actor_loss)
        follow(self._targets, self._networks, self._tau)
        return {
            "critic_loss": critic_loss.item(),
            "actor_loss": actor_loss.item(),
            "q_mean": value.mean().item(),
        }

    @torch.no_grad()
    def _target_values(self, batch: Batch) -> torch.Tensor:
        """Return (B,) what the values should be."""
        after = self._inputs(batch.next_observations)
        value = self._targets["critic"](after, self._targets["actor"](after)).squeeze(1)
        target: torch.Tensor = batch.rewards + batch.discounts * value
        return target.clamp(*self._bounds)
