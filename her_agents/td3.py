"""TD3 for goal environments (Fujimoto et al. 2018): DDPG with two critics, smoothed targets, a delayed actor.

As in `her_agents.ddpg`, targets are clipped to the range of returns of rewards in [-1, 0], the squares of the
actions are penalized, inputs are normalized, and exploration is Gaussian in most steps, else uniform.
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
from her_agents.networks import Network, TwinCritics

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import spaces

    from her_agents.networks import NetworkInput
    from her_wrappers import Batch


class TD3(Agent):
    """TD3: a deterministic actor that maximizes the first of two critics; targets use the minimum of both.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: A Box with bounds.
        hidden: Units of each hidden layer.
        layer_norm: Whether to normalize the units of each hidden layer before the activation.
        learning_rate: Step size of both Adam optimizers.
        gamma: Discount per step, as in the replay buffer; used for the bounds of clipped targets.
        tau: Weight of the online parameters in the Polyak update of the target networks.
        action_l2: Weight of the mean square of the actions, scaled to [-1, 1], in the actor's loss.
        epsilon: Probability of a uniformly random action while exploring.
        noise: Standard deviation of the Gaussian exploration, for actions scaled to [-1, 1].
        target_noise: Standard deviation of the noise on the actions in targets.
        target_noise_clip: Largest absolute value of that noise.
        policy_delay: Updates of the critics for each update of the actor and of the target networks.
        clip_targets: Whether to clip targets to the range of returns of rewards in [-1, 0].
        seed: Seed of the weights, the exploration and the noise of targets.

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
        action_l2: float = 1.0,
        epsilon: float = 0.3,
        noise: float = 0.2,
        target_noise: float = 0.2,
        target_noise_clip: float = 0.5,
        policy_delay: int = 2,
        clip_targets: bool = True,
        seed: int = 0,
    ) -> None:
        self._actions = BoxActions(action_space, "td3")
        super().__init__(observation_space, seed, tau=tau, target_update_interval=policy_delay)
        count = self._actions.count
        with seeded_weights(seed):
            self._actor = nn.Sequential(
                Network(self._inputs, hidden, count, layer_norm=layer_norm), nn.Tanh()
            )
            self._critics = TwinCritics(self._inputs, hidden, count, layer_norm=layer_norm)
        self._networks = nn.ModuleDict({"actor": self._actor, "critics": self._critics})
        self._targets = self._make_target(self._networks)
        self._actor_optimizer = torch.optim.Adam(self._actor.parameters(), learning_rate, fused=True)
        self._critic_optimizer = torch.optim.Adam(self._critics.parameters(), learning_rate, fused=True)
        self._modules |= {
            "networks": self._networks,
            "targets": self._targets,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
        }
        self._action_l2 = action_l2
        self._epsilon, self._noise = epsilon, noise
        self._target_noise, self._target_noise_clip = target_noise, target_noise_clip
        self._policy_delay = policy_delay
        self._bounds = target_bounds(gamma, clip_targets)

    def _choose(self, inputs: NetworkInput, explore: bool) -> np.ndarray:
        actions = self._actor(inputs)
        if explore:
            actions = add_exploration_noise(actions, self._epsilon, self._noise, self._generator)
        return self._actions.to_env(actions)

    def update(self, batch: Batch) -> dict[str, float]:
        """Take one gradient step with the critics, and in every ``policy_delay``-th call one with the actor.

        Args:
            batch: B transitions, as NumPy arrays or tensors on the CPU.

        Returns:
            ``critic_loss``, ``actor_loss`` if the actor took a step, and ``q_mean``, the mean Q value of the
            batch.
        """
        inputs, next_inputs = self._inputs.of_batch(batch)
        target = self._target_values(batch, next_inputs)
        values = self._critics(inputs, self._actions.from_env(batch.actions))
        errors = values - target
        self._errors = errors
        critic_loss = mean_square(batch, errors)
        gradient_step(self._critic_optimizer, critic_loss)
        measured = {"critic_loss": critic_loss.item(), "q_mean": values.detach().mean().item()}
        if (self._updates + 1) % self._policy_delay == 0:
            measured |= self._update_actor(inputs)
        self._update_target()
        return measured

    def _update_actor(self, inputs: NetworkInput) -> dict[str, float]:
        actions = self._actor(inputs)
        loss = -self._critics.first(inputs, actions).mean() + self._action_l2 * actions.square().mean()
        gradient_step(self._actor_optimizer, loss, inputs=list(self._actor.parameters()))
        return {"actor_loss": loss.item()}

    @torch.no_grad()
    def _target_values(self, batch: Batch, next_inputs: NetworkInput) -> torch.Tensor:
        """Return the targets, (B,), with the minimum of the two target critics for noisy next actions."""
        actions = self._targets["actor"](next_inputs)
        noise = self._target_noise * torch.randn(actions.shape, generator=self._generator)
        actions = actions + noise.clamp(-self._target_noise_clip, self._target_noise_clip)
        next_value = self._targets["critics"](next_inputs, actions.clamp(-1, 1)).amin(dim=0)
        return bellman_target(batch, next_value).clamp(*self._bounds)
