"""DQN for goal environments with Discrete actions (Mnih et al. 2015, double as in van Hasselt et al. 2016).

The network sees the observation and the desired goal side by side. Targets are clipped to
[-1 / (1 - gamma), 0], the returns that rewards of -1 and 0 can give, as in the HER paper (appendix A). The
loss is the squared error: the Huber loss caps the gradient of the rare successes that plain replay lives on.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from examples.agents.networks import (
    Agent,
    Network,
    Seen,
    descend,
    follow,
    seeded_weights,
    target_bounds,
)

if TYPE_CHECKING:
    from her_wrappers import Batch


class DQN(Agent):
    """Q-learning with one hidden layer, a target network, and exploration by chance.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: Discrete.
        hidden: Units of each hidden layer.
        learning_rate: Of Adam.
        gamma: Discount of a step, that of the replay buffer; it bounds clipped targets.
        tau: Share by which the target network moves towards the other at each update.
        epsilon: How often a random action is explored.
        clip_targets: Whether to clip targets to the returns of rewards from -1 to 0.
        seed: Seeds the weights and the exploration.

    Raises:
        TypeError: The actions are not Discrete, or the observations or goals neither vectors nor images.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        hidden: Sequence[int] = (256,),
        learning_rate: float = 1e-3,
        gamma: float = 0.98,
        tau: float = 0.05,
        epsilon: float = 0.2,
        clip_targets: bool = True,
        seed: int = 0,
    ) -> None:
        if not isinstance(action_space, spaces.Discrete):
            raise TypeError(
                f"dqn needs Discrete actions, got {action_space}; ddpg, td3 and sac are for a Box"
            )
        super().__init__(observation_space, seed)
        with seeded_weights(seed):
            self._network = Network(self._inputs, hidden, int(action_space.n))
        self._target = copy.deepcopy(self._network).requires_grad_(False)
        self._optimizer = torch.optim.Adam(self._network.parameters(), learning_rate, fused=True)
        self._parts |= {"network": self._network, "target": self._target, "optimizer": self._optimizer}
        self._num_actions, self._first_action = int(action_space.n), int(action_space.start)
        self._tau, self._epsilon = tau, epsilon
        self._bounds = target_bounds(gamma, clip_targets)

    def _choose(self, seen: Seen, explore: bool) -> np.ndarray:
        best = self._network(seen).argmax(dim=1)
        if explore:
            chance = torch.rand(len(best), generator=self._generator) < self._epsilon
            anything = torch.randint(self._num_actions, best.shape, generator=self._generator)
            best = torch.where(chance, anything, best)
        actions: np.ndarray = (best + self._first_action).numpy()
        return actions

    def update(self, batch: Batch) -> dict[str, float]:
        """Take one step of gradient descent.

        Args:
            batch: B transitions, as NumPy arrays or torch tensors.

        Returns:
            ``loss`` and ``q_mean``, the mean value of the actions taken.
        """
        batch = batch.to_torch()
        self._inputs.learn(batch.observations)
        target = self._target_values(batch)
        taken = (batch.actions.long() - self._first_action).unsqueeze(1)
        value = self._network(self._inputs(batch.observations)).gather(1, taken).squeeze(1)
        errors = value - target
        self.td_errors = errors.detach().abs().numpy()
        loss = (batch.weights * errors.square()).mean()
        descend(self._optimizer, loss)
        follow(self._target, self._network, self._tau)
        return {"loss": loss.item(), "q_mean": value.mean().item()}

    @torch.no_grad()
    def _target_values(self, batch: Batch) -> torch.Tensor:
        """Return (B,) what the values should be: one network chooses the next action, the other values it."""
        after = self._inputs(batch.next_observations)
        best = self._network(after).argmax(dim=1, keepdim=True)
        value = self._target(after).gather(1, best).squeeze(1)
        target: torch.Tensor = batch.rewards + batch.discounts * value
        return target.clamp(*self._bounds)
