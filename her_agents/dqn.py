"""DQN for goal environments with Discrete actions (Mnih et al. 2015), with double Q-learning.

Double Q-learning as in van Hasselt et al. 2016. The network reads the concatenated observation and desired
goal. Targets are clipped to [-1 / (1 - gamma), 0], the range of returns of rewards in {-1, 0}, as in the HER
paper (appendix A). The loss is the squared error, not the Huber loss, which would limit the gradients of rare
successes; training without relabeling needs these gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces

from her_agents.agent import (
    Agent,
    bellman_target,
    gradient_step,
    mean_square,
    seeded_weights,
    target_bounds,
)
from her_agents.networks import Network

if TYPE_CHECKING:
    import numpy as np

    from her_agents.networks import NetworkInput
    from her_wrappers import Batch


class DQN(Agent):
    """DQN with double Q-learning, a target network, and epsilon-greedy exploration.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``; vectors or images.
        action_space: A Discrete space.
        hidden: Units of each hidden layer.
        layer_norm: Whether to normalize the units of each hidden layer before the activation.
        learning_rate: Step size of Adam.
        gamma: Discount per step, as in the replay buffer; used for the bounds of clipped targets.
        tau: Weight of the online parameters in the Polyak update of the target network.
        target_update_interval: Number of updates for each Polyak update.
        epsilon: Probability of a random action while exploring.
        clip_targets: Whether to clip targets to the range of returns of rewards in [-1, 0].
        seed: Seed of the weights and the exploration.

    Raises:
        TypeError: ``action_space`` is not Discrete, or observations or goals are neither vectors nor images.
    """

    _acting_network = "_network"

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        hidden: Sequence[int] = (256,),
        layer_norm: bool = False,
        learning_rate: float = 1e-3,
        gamma: float = 0.98,
        tau: float = 0.05,
        target_update_interval: int = 1,
        epsilon: float = 0.2,
        clip_targets: bool = True,
        seed: int = 0,
    ) -> None:
        if not isinstance(action_space, spaces.Discrete):
            raise TypeError(
                f"dqn needs a Discrete action space, got {action_space}; use ddpg, td3, sac or tqc for a Box"
            )
        super().__init__(observation_space, seed, tau=tau, target_update_interval=target_update_interval)
        with seeded_weights(seed):
            self._network = Network(self._inputs, hidden, int(action_space.n), layer_norm=layer_norm)
        self._target = self._make_target(self._network)
        self._optimizer = torch.optim.Adam(self._network.parameters(), learning_rate, fused=True)
        self._modules |= {"network": self._network, "target": self._target, "optimizer": self._optimizer}
        self._num_actions, self._first_action = int(action_space.n), int(action_space.start)
        self._epsilon = epsilon
        self._bounds = target_bounds(gamma, clip_targets)

    def _choose(self, inputs: NetworkInput, explore: bool) -> np.ndarray:
        best = self._network(inputs).argmax(dim=1)
        if explore:
            is_random = torch.rand(len(best), generator=self._generator) < self._epsilon
            random = torch.randint(self._num_actions, best.shape, generator=self._generator)
            best = torch.where(is_random, random, best)
        actions: np.ndarray = (best + self._first_action).numpy()
        return actions

    def update(self, batch: Batch) -> dict[str, float]:
        """Take one gradient step.

        Args:
            batch: B transitions, as NumPy arrays or tensors on the CPU.

        Returns:
            ``loss`` and ``q_mean``, the mean Q value of the batch.
        """
        inputs, next_inputs = self._inputs.of_batch(batch)
        target = self._target_values(batch, next_inputs)
        taken = torch.as_tensor(batch.actions - self._first_action).long().unsqueeze(1)
        value = self._network(inputs).gather(1, taken).squeeze(1)
        errors = value - target
        self._errors = errors
        loss = mean_square(batch, errors)
        gradient_step(self._optimizer, loss)
        self._update_target()
        return {"loss": loss.item(), "q_mean": value.detach().mean().item()}

    @torch.no_grad()
    def _target_values(self, batch: Batch, next_inputs: NetworkInput) -> torch.Tensor:
        """Return the targets, (B,): the online network selects actions, the target network evaluates them."""
        best = self._network(next_inputs).argmax(dim=1, keepdim=True)
        next_value = self._target(next_inputs).gather(1, best).squeeze(1)
        return bellman_target(batch, next_value).clamp(*self._bounds)
