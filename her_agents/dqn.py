"""DQN for goal environments with Discrete actions (Mnih et al. 2015), with double Q-learning.

Double Q-learning as in van Hasselt et al. 2016. The network reads the concatenated observation and desired
goal. Targets are clipped to [-1 / (1 - gamma), 0], the range of returns of rewards in {-1, 0}, as in the HER
paper (appendix A). The loss is the squared error, not the Huber loss, which would limit the gradients of rare
successes; training without relabeling needs these gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces

from her_agents.agent import Agent, gradient_step
from her_agents.options import DQNOptions

if TYPE_CHECKING:
    from her_agents.networks import NetworkInput
    from her_wrappers import Batch


class DQN(Agent):
    """DQN with double Q-learning, a target network, and epsilon-greedy exploration.

    The arguments are those of `Agent`, with the options `her_agents.options.DQNOptions`. The action space is
    Discrete.
    """

    options: DQNOptions
    options_type = DQNOptions
    _acting_network = "_network"

    def _build(self, action_space: spaces.Space[Any]) -> None:
        if not isinstance(action_space, spaces.Discrete):
            raise TypeError(
                f"dqn needs a Discrete action space, got {action_space}; use ddpg, td3, sac or tqc for a Box"
            )
        self._num_actions, self._first_action = int(action_space.n), int(action_space.start)
        self._network = self._make_network(self._num_actions)
        self._target = self._make_target(self._network)
        self._optimizer = self._adam(self._network)
        self._modules |= {"network": self._network, "target": self._target, "optimizer": self._optimizer}

    def _choose(self, inputs: NetworkInput, explore: bool) -> torch.Tensor:
        best = self._network(inputs).argmax(dim=1)
        if explore:
            is_random = torch.rand(len(best), **self._random) < self.options.epsilon
            random = torch.randint(self._num_actions, best.shape, **self._random)
            best = torch.where(is_random, random, best)
        actions: torch.Tensor = best + self._first_action
        return actions

    def update(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Take one gradient step.

        Args:
            batch: B transitions, as NumPy arrays or tensors.

        Returns:
            ``loss`` and ``q_mean``, the mean Q value of the batch.
        """
        inputs, next_inputs = self._inputs.of_batch(batch)
        target = self._target_values(batch, next_inputs)
        taken = self._tensor(batch.actions - self._first_action).long().unsqueeze(1)
        all_values = self._network(inputs)
        values = all_values.gather(1, taken).squeeze(1)
        loss = self._squared_loss(batch, values, target)
        if self.options.bc_weight:
            others = all_values + self.options.margin * torch.ones_like(all_values).scatter(1, taken, 0)
            below = (others.amax(dim=1) - values) * self._tensor(batch.is_demonstration)
            loss = loss + self.options.bc_weight * below.mean()
        gradient_step(self._optimizer, loss)
        self._update_target()
        return {"loss": loss.detach(), "q_mean": values.detach().mean()}

    @torch.no_grad()
    def _target_values(self, batch: Batch, next_inputs: NetworkInput) -> torch.Tensor:
        """Return the targets, (B,): the online network selects actions, the target network evaluates them."""
        best = self._network(next_inputs).argmax(dim=1, keepdim=True)
        next_value = self._target(next_inputs).gather(1, best).squeeze(1)
        return self._bellman_target(batch, next_value)
