"""DDPG for goal environments (Lillicrap et al. 2016), as in the HER paper and in Plappert et al. 2018.

As in those papers, targets are clipped to the range of returns of rewards in [-1, 0], squares of the actions
are penalized, inputs are normalized, and exploration is Gaussian in most steps and uniform in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from her_agents.agent import (
    Agent,
    BoxActions,
    add_exploration_noise,
    bellman_target,
    gradient_step,
    mean_square,
    seeded_weights,
    target_bounds,
)
from her_agents.networks import Network

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import spaces

    from her_agents.networks import NetworkInput
    from her_wrappers import Batch


class DDPG(Agent):
    """DDPG: a deterministic actor that maximizes the value of its critic.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: A Box with bounds.
        hidden: Units of each hidden layer.
        layer_norm: Whether to normalize the units of each hidden layer before the activation.
        learning_rate: Step size of both Adam optimizers.
        gamma: Discount per step, as in the replay buffer; used for the bounds of clipped targets.
        tau: Weight of the online parameters in the Polyak update of the target networks.
        target_update_interval: Number of updates for each Polyak update.
        action_l2: Weight of the mean square of the actions, scaled to [-1, 1], in the actor's loss.
        epsilon: Probability of a uniformly random action while exploring.
        noise: Standard deviation of the Gaussian exploration, for actions scaled to [-1, 1].
        clip_targets: Whether to clip targets to the range of returns of rewards in [-1, 0].
        seed: Seed of the weights and the exploration.

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
        action_l2: float = 1.0,
        epsilon: float = 0.3,
        noise: float = 0.2,
        clip_targets: bool = True,
        seed: int = 0,
    ) -> None:
        self._actions = BoxActions(action_space, "ddpg")
        super().__init__(observation_space, seed, tau=tau, target_update_interval=target_update_interval)
        count = self._actions.count
        with seeded_weights(seed):
            self._actor = nn.Sequential(
                Network(self._inputs, hidden, count, layer_norm=layer_norm), nn.Tanh()
            )
            self._critic = Network(self._inputs, hidden, 1, num_actions=count, layer_norm=layer_norm)
        self._networks = nn.ModuleDict({"actor": self._actor, "critic": self._critic})
        self._targets = self._make_target(self._networks)
        self._actor_optimizer = torch.optim.Adam(self._actor.parameters(), learning_rate, fused=True)
        self._critic_optimizer = torch.optim.Adam(self._critic.parameters(), learning_rate, fused=True)
        self._modules |= {
            "networks": self._networks,
            "targets": self._targets,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
        }
        self._action_l2 = action_l2
        self._epsilon, self._noise = epsilon, noise
        self._bounds = target_bounds(gamma, clip_targets)

    def _choose(self, inputs: NetworkInput, explore: bool) -> np.ndarray:
        actions = self._actor(inputs)
        if explore:
            actions = add_exploration_noise(actions, self._epsilon, self._noise, self._generator)
        return self._actions.to_env(actions)

    def update(self, batch: Batch) -> dict[str, float]:
        """Take one gradient step with the critic, and one with the actor.

        Args:
            batch: B transitions, as NumPy arrays or tensors on the CPU.

        Returns:
            ``critic_loss``, ``actor_loss``, and ``q_mean``, the mean Q value of the batch.
        """
        inputs, next_inputs = self._inputs.of_batch(batch)
        target = self._target_values(batch, next_inputs)
        value = self._critic(inputs, self._actions.from_env(batch.actions)).squeeze(1)
        errors = value - target
        self._errors = errors
        critic_loss = mean_square(batch, errors)
        gradient_step(self._critic_optimizer, critic_loss)

        actions = self._actor(inputs)
        actor_loss = -self._critic(inputs, actions).mean() + self._action_l2 * actions.square().mean()
        gradient_step(self._actor_optimizer, actor_loss, inputs=list(self._actor.parameters()))
        self._update_target()
        return {
            "critic_loss": critic_loss.item(),
            "actor_loss": actor_loss.item(),
            "q_mean": value.detach().mean().item(),
        }

    @torch.no_grad()
    def _target_values(self, batch: Batch, next_inputs: NetworkInput) -> torch.Tensor:
        """Return the targets of the critic, (B,)."""
        next_value = self._targets["critic"](next_inputs, self._targets["actor"](next_inputs)).squeeze(1)
        return bellman_target(batch, next_value).clamp(*self._bounds)
