"""SAC for goal environments (Haarnoja et al. 2018): a random actor that is paid for its entropy.

The weight of the entropy, the temperature, is learned as in their second paper (arXiv 1812.05905). The actor
explores by itself, without epsilon and noise, and its entropy keeps actions from the extremes, without a
penalty on them. Values hold entropies, which may lift them above 0: targets are clipped from below.
"""

from __future__ import annotations

import copy
import math
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
    target_bounds,
)

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import spaces

    from her_wrappers import Batch

LOG_DEVIATION = (-5.0, 2.0)  # of the actions before the tanh


class SAC(Agent):
    """A squashed Gaussian actor, two critics, and a temperature that holds the entropy near a target.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: A Box with bounds.
        hidden: Units of each hidden layer.
        learning_rate: Of all Adams.
        gamma: Discount of a step, that of the replay buffer; it bounds clipped targets.
        tau: Share by which the target critics move towards the others at each update.
        temperature: Weight of the entropy at first.
        target_entropy: What the temperature holds the entropy at; by default minus the numbers of an action.
        clip_targets: Whether to clip targets from below to the returns of rewards from -1 to 0.
        seed: Seeds the weights and the actions.

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
        temperature: float = 0.1,
        target_entropy: float | None = None,
        clip_targets: bool = True,
        seed: int = 0,
    ) -> None:
        self._actions = BoxActions(action_space, "sac")
        super().__init__(observation_space, seed)
        count = self._actions.count
        with seeded_weights(seed):
            self._actor = Network(self._inputs, hidden, 2 * count)
            self._critics = TwinCritics(self._inputs, hidden, count)
        self._targets = copy.deepcopy(self._critics).requires_grad_(False)
        self._temperature = nn.ParameterDict({"log": torch.tensor(math.log(temperature))})
        self._target_entropy = -float(count) if target_entropy is None else target_entropy
        learned = {"actor": self._actor, "critics": self._critics, "temperature": self._temperature}
        self._optimizers = {
            name: torch.optim.Adam(part.parameters(), learning_rate, fused=True)
            for name, part in learned.items()
        }
        self._parts |= learned | {"targets": self._targets}
        self._parts |= {f"{name}_optimizer": optimizer for name, optimizer in self._optimizers.items()}
        self._tau = tau
        self._lowest = target_bounds(gamma, clip_targets)[0]

    def _choose(self, seen: Seen, explore: bool) -> np.ndarray:
        if explore:
            return self._actions.to_env(self._sample(seen)[0])
        mean, _ = self._actor(seen).chunk(2, dim=1)
        return self._actions.to_env(mean.tanh())

    def update(self, batch: Batch) -> dict[str, float]:
        """Take one step of gradient descent with the critics, the actor, and the temperature.

        Args:
            batch: B transitions, as NumPy arrays or torch tensors.

        Returns:
            ``critic_loss``, ``actor_loss``, ``temperature``, ``entropy``, and ``q_mean``, the mean value of
            the actions taken.
        """
        batch = batch.to_torch()
        self._inputs.learn(batch.observations)
        seen = self._inputs(batch.observations)
        temperature = self._temperature["log"].exp().detach()
        target = self._target_values(batch, temperature)
        values = self._critics(seen, self._actions.from_env(batch.actions))
        errors = values - target
        self.td_errors = errors.detach().abs().mean(dim=0).numpy()
        critic_loss = (batch.weights * errors.square()).mean()
        descend(self._optimizers["critics"], critic_loss)

        actions, entropy = self._sample(seen)
        actor_loss = -(self._critics(seen, actions).amin(dim=0) + temperature * entropy).mean()
        descend(self._optimizers["actor"], actor_loss)
        excess = entropy.detach().mean() - self._target_entropy
        descend(self._optimizers["temperature"], self._temperature["log"] * excess)
        follow(self._targets, self._critics, self._tau)
        return {
            "critic_loss": critic_loss.item(),
            "actor_loss": actor_loss.item(),
            "temperature": temperature.item(),
            "entropy": entropy.mean().item(),
            "q_mean": values.mean().item(),
        }

    @torch.no_grad()
    def _target_values(self, batch: Batch, temperature: torch.Tensor) -> torch.Tensor:
        """Return (B,) what the values should be: the lower of two, and what the next entropy is worth."""
        after = self._inputs(batch.next_observations)
        actions, entropy = self._sample(after)
        value = self._targets(after, actions).amin(dim=0) + temperature * entropy
        target: torch.Tensor = batch.rewards + batch.discounts * value
        return target.clamp(min=self._lowest)

    def _sample(self, seen: Seen) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw (B, A) actions; return them and (B,) minus the logarithms of their densities."""
        mean, log_deviation = self._actor(seen).chunk(2, dim=1)
        log_deviation = log_deviation.clamp(*LOG_DEVIATION)
        noise = torch.randn(mean.shape, generator=self._generator)
        raw = mean + log_deviation.exp() * noise
        # The last term is log(1 - tanh(raw)**2), of which float32 knows nothing far from 0.
        log_density = -0.5 * noise.square() - log_deviation - 0.5 * math.log(2 * math.pi)
        log_density = log_density - 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        return raw.tanh(), -log_density.sum(dim=1)
