"""DQN for goal environments with Discrete actions (Mnih et al. 2015, double as in van Hasselt et al. 2016).

The network sees the observation and the desired goal side by side. Targets are clipped to
[-1 / (1 - gamma), 0], the returns that rewards of -1 and 0 can give, as in the HER paper (appendix A). The
loss is the squared error: the Huber loss caps the gradient of the rare successes that plain replay lives on.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

if TYPE_CHECKING:
    from her_wrappers import Batch


class DQN:
    """Q-learning with one hidden layer, a target network, and exploration by chance.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``, with vectors in them.
        action_space: Discrete.
        hidden: Units of the hidden layer.
        learning_rate: Of Adam.
        gamma: Discount of a step.
        tau: Share by which the target network moves towards the other at each update.
        seed: Seeds the weights and the exploration.

    Raises:
        TypeError: The actions are not Discrete, or the observations or goals no vectors.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        hidden: int = 256,
        learning_rate: float = 1e-3,
        gamma: float = 0.98,
        tau: float = 0.05,
        seed: int = 0,
    ) -> None:
        if not isinstance(action_space, spaces.Discrete):
            raise TypeError(f"DQN needs Discrete actions, got {action_space}")
        for key in ("observation", "desired_goal"):
            if len(observation_space[key].shape or ()) != 1:
                raise TypeError(f"DQN needs vectors as {key}, got {observation_space[key]}")
        inputs = sum(spaces.flatdim(observation_space[key]) for key in ("observation", "desired_goal"))
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._network = nn.Sequential(
                nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, int(action_space.n))
            )
        self._target = copy.deepcopy(self._network).requires_grad_(False)
        self._optimizer = torch.optim.Adam(self._network.parameters(), learning_rate)
        self._num_actions, self._first_action = int(action_space.n), int(action_space.start)
        self._gamma = gamma
        self._tau = tau
        self._rng = np.random.default_rng(seed)

    @torch.no_grad()
    def act(self, observation: dict[str, np.ndarray], epsilon: float = 0.0) -> int:
        """Return the best action, or with probability ``epsilon`` any.

        Args:
            observation: One observation, unbatched.
            epsilon: How often to explore.
        """
        if epsilon and self._rng.random() < epsilon:
            return self._first_action + int(self._rng.integers(self._num_actions))
        seen = np.concatenate([observation["observation"], observation["desired_goal"]], dtype=np.float32)
        return self._first_action + int(self._network(torch.from_numpy(seen)).argmax())

    def update(self, batch: Batch) -> float:
        """Take one step of gradient descent.

        Args:
            batch: B transitions, as NumPy arrays or torch tensors on the CPU.

        Returns:
            The loss.
        """
        batch = batch if isinstance(batch.rewards, torch.Tensor) else batch.to_torch()
        with torch.no_grad():
            after = _inputs(batch.next_observations)
            best = self._network(after).argmax(dim=1, keepdim=True)
            value = self._target(after).gather(1, best).squeeze(1)
            target = batch.rewards + self._gamma * value * ~batch.terminations
            target = target.clamp(-1 / (1 - self._gamma), 0)
        taken = (batch.actions - self._first_action).unsqueeze(1)
        chosen = self._network(_inputs(batch.observations)).gather(1, taken).squeeze(1)
        loss = nn.functional.mse_loss(chosen, target)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch does not annotate it
        self._optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self._target.parameters(), self._network.parameters(), strict=True):
                slow.lerp_(fast, self._tau)
        return float(loss.detach())

    def state_dict(self) -> dict[str, Any]:
        """Return everything that training needs to go on, for ``torch.save``."""
        return {
            "network": self._network.state_dict(),
            "target": self._target.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._network.load_state_dict(state["network"])
        self._target.load_state_dict(state["target"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._rng.bit_generator.state = state["rng"]


def _inputs(observations: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([observations["observation"], observations["desired_goal"]], dim=1).float()
