"""TD3 for goal environments (Fujimoto et al. 2018): DDPG with two critics, smoothed targets, a slower actor.

As in `examples.agents.ddpg`, targets are clipped to the returns of rewards from -1 to 0, the actions'
squares are penalised, inputs are normalised, and exploration is Gaussian at most times, else uniform.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from examples.agents.networks import (
    Agent,
    BoxActions,
    Network,
    Seen,
    TwinCritics,
    descend,
    explored,
    follow,
    seeded_weights,
    target_bounds,
)

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers import Batch


class TD3(Agent):
    """A deterministic actor that climbs the first of two critics, which trust the lower of their targets.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: A Box with bounds.
        hidden: Units of each hidden layer.
        learning_rate: Of both Adams.
        gamma: Discount of a step, that of the replay buffer; it bounds clipped targets.
        tau: Share by which the target networks move towards the others at each update of the actor.
        action_l2: Weight of the mean square of the actions, scaled to [-1, 1], in the actor's loss.
        epsilon: How often a uniformly random action is explored.
        noise: Standard deviation of the exploration at other times, of actions scaled to [-1, 1].
        target_noise: Standard deviation of the noise on the actions in targets.
        target_noise_clip: Largest absolute value of that noise.
        policy_delay: Updates of the critics for each of the actor.
        clip_targets: Whether to clip targets to the returns of rewards from -1 to 0.
        seed: Seeds the weights, the exploration and the noise of targets.

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
        target_noise: float = 0.2,
        target_noise_clip: float = 0.5,
        policy_delay: int = 2,
        clip_targets: bool = True,
        seed: int = 0,
    ) -> None:
        self._actions = BoxActions(action_space, "td3")
        super().__init__(observation_space, seed)
        count = self._actions.count
        with seeded_weights(seed):
            self._actor = nn.Sequential(Network(self._inputs, hidden, count), nn.Tanh())
            self._critics = TwinCritics(self._inputs, hidden, count)
        self._networks = nn.ModuleDict({"actor": self._actor, "critics": self._critics})
        self._targets = copy.deepcopy(self._networks).requires_grad_(False)
        self._actor_optimizer = torch.optim.Adam(self._actor.parameters(), learning_rate, fused=True)
        self._critic_optimizer = torch.optim.Adam(self._critics.parameters(), learning_rate, fused=True)
        self._parts |= {
            "networks": self._networks,
            "targets": self._targets,
            "actor_optimizer": self._actor_optimizer,
            "critic_optimizer": self._critic_optimizer,
        }
        self._tau, self._action_l2 = tau, action_l2
        self._epsilon, self._noise = epsilon, noise
        self._target_noise, self._target_noise_clip = target_noise, target_noise_clip
        self._policy_delay, self._updates = policy_delay, 0
        self._bounds = target_bounds(gamma, clip_targets)

    def _choose(self, seen: Seen, explore: bool) -> np.ndarray:
        actions = self._actor(seen)
        if explore:
            actions = explored(actions, self._epsilon, self._noise, self._generator)
        return self._actions.to_env(actions)

    def update(self, batch: Batch) -> dict[str, float]:
        """Take one step of gradient descent with the critics, and now and then one with the actor.

        Args:
            batch: B transitions, as NumPy arrays or torch tensors.

        Returns:
            ``critic_loss``, ``actor_loss`` if the actor took a step, and ``q_mean``, the mean value of the
            actions taken.
        """
        batch = batch.to_torch()
        self._inputs.learn(batch.observations)
        seen = self._inputs(batch.observations)
        target = self._target_values(batch)
        values = self._critics(seen, self._actions.from_env(batch.actions))
        errors = values - target
        self.td_errors = errors.detach().abs().mean(dim=0).numpy()
        critic_loss = (batch.weights * errors.square()).mean()
        descend(self._critic_optimizer, critic_loss)
        outcome = {"critic_loss": critic_loss.item(), "q_mean": values.mean().item()}
        self._updates += 1
        return outcome if self._updates % self._policy_delay else outcome | self._update_actor(seen)

    def _update_actor(self, seen: Seen) -> dict[str, float]:
        actions = self._actor(seen)
        loss = -self._critics.first(seen, actions).mean() + self._action_l2 * actions.square().mean()
        descend(self._actor_optimizer, loss)
        follow(self._targets, self._networks, self._tau)
        return {"actor_loss": loss.item()}

    @torch.no_grad()
    def _target_values(self, batch: Batch) -> torch.Tensor:
        """Return (B,) what the values should be: the lower of two, at actions that are a little off."""
        after = self._inputs(batch.next_observations)
        actions = self._targets["actor"](after)
        noise = self._target_noise * torch.randn(actions.shape, generator=self._generator)
        actions = actions + noise.clamp(-self._target_noise_clip, self._target_noise_clip)
        value = self._targets["critics"](after, actions.clamp(-1, 1)).amin(dim=0)
        target: torch.Tensor = batch.rewards + batch.discounts * value
        return target.clamp(*self._bounds)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on, for ``torch.save``."""
        return super().state_dict() | {"updates": self._updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(state)
        self._updates = state["updates"]
