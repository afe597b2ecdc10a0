"""DQN for goal environments with Discrete actions (Mnih et al. 2015), with double Q-learning.

Double Q-learning follows van Hasselt et al. 2016. The network reads the concatenated observation and desired
goal. As in the HER paper (appendix A), targets are clipped to [-1 / (1 - gamma), 0], the range of returns if
rewards are -1 or 0. The loss is the squared error, not the Huber loss, which would limit the gradients of
rare successes; training without relabeling needs these gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces

from her_agents.algorithms.base import Agent
from her_agents.algorithms.options import DQNOptions

if TYPE_CHECKING:
    from her_agents.algorithms.networks import NetworkInput
    from her_wrappers import Batch


class DQN(Agent):
    """DQN with double Q-learning, a target network, and epsilon-greedy exploration.

    DQN takes the arguments of `Agent`, the fields of `her_agents.DQNOptions`, and Discrete actions.
    """

    options: DQNOptions
    options_type = DQNOptions
    _acting_network = "network"

    def build(self, action_space: spaces.Space[Any]) -> None:
        """Make the network and its target."""
        if not isinstance(action_space, spaces.Discrete):
            raise TypeError(
                f"dqn needs a Discrete action space, got {action_space}; use ddpg, td3, sac or tqc for a Box"
            )
        if self.inputs.critic is not None:
            raise TypeError(
                "critic_keys must be empty for dqn, whose only network also chooses the actions, got "
                f"{self.inputs.critic.keys}; pass use_keys, or an algorithm with an actor"
            )
        self._num_actions, self._first_action = int(action_space.n), int(action_space.start)
        self.network = self.make_network(self._num_actions)
        self.target = self.make_target(self.network)
        self._optimizer = self.make_optimizer(self.network)
        self.modules |= {"network": self.network, "target": self.target, "optimizer": self._optimizer}

    def choose(self, inputs: NetworkInput, explore: bool) -> torch.Tensor:
        """Return the actions with the highest Q values; to explore, random actions with probability epsilon.

        If the observations have the key ``action_mask``, only valid actions are chosen.
        """
        best = self.best(inputs)
        if explore:
            is_random = torch.rand(len(best), dtype=torch.float32, **self._random) < self.options.epsilon
            if inputs.mask is None:
                random = torch.randint(self._num_actions, best.shape, **self._random)
            else:  # the valid action with the largest random number
                drawn = torch.rand(inputs.mask.shape, dtype=torch.float32, **self._random)
                random = drawn.masked_fill(~inputs.mask, -1).argmax(dim=1)
            best = torch.where(is_random, random, best)
        return best + self._first_action

    def best(self, inputs: NetworkInput) -> torch.Tensor:
        """Return the index, from 0, of the valid action with the highest Q value for each input, (B,)."""
        values = self.network(inputs)
        if inputs.mask is not None:
            values = values.masked_fill(~inputs.mask, -torch.inf)
        return values.argmax(dim=1)  # type: ignore[no-any-return]

    def update(self, batch: Batch, imitate: Any = None) -> dict[str, torch.Tensor]:
        """Take one gradient step; ``imitate`` has no effect unless ``bc_weight`` is above 0."""
        inputs, next_inputs = self.inputs.of_batch(batch)
        target = self.target_values(batch, next_inputs)
        taken = self.as_tensor(batch.actions - self._first_action).long().unsqueeze(1)
        all_values = self.network(inputs)
        values = all_values.gather(1, taken).squeeze(1)
        loss = self.critic_loss(batch, values, target)
        if imitate is not None and self.options.bc_weight:
            others = all_values + self.options.margin * torch.ones_like(all_values).scatter(1, taken, 0)
            below = (others.amax(dim=1) - values) * self.as_tensor(imitate)
            loss = loss + self.options.bc_weight * below.mean()
        self.gradient_step(self._optimizer, loss)
        self.update_targets()
        return {"loss": loss.detach(), "q_mean": values.detach().mean()}

    @torch.no_grad()
    def target_values(self, batch: Batch, next_inputs: NetworkInput) -> torch.Tensor:
        """Return targets, (B,): the online network selects the actions, the target network evaluates them."""
        best = self.best(next_inputs).unsqueeze(1)
        next_value = self.target(next_inputs).gather(1, best).squeeze(1)
        return self.bellman_target(batch, next_value)
