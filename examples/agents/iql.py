"""Implicit Q-learning for goals, from recorded data alone (Kostrikov et al. 2021, arXiv 2110.06169).

Values are learned from actions that are in the data only: the value of a state and goal is an upper expectile
of what its recorded actions are worth. The policy imitates recorded actions, the better ones more. As OGBench
does (Park et al. 2024, arXiv 2410.20092), values and policy get batches of their own, with other goals.
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


class IQL:
    """Two action values, a state value and a policy, each a network of two hidden layers.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal``, with bounded vectors.
        action_space: Box.
        hidden: Units of a hidden layer.
        learning_rate: Of Adam.
        expectile: Of the action values, in (0.5, 1): the nearer to 1, the more a state is worth what the best
            recorded action there is.
        temperature: How much more the policy imitates the better actions.
        tau: Share by which the target networks move towards the others at each update.
        seed: Seeds the weights.

    Raises:
        TypeError: The actions are no vectors of a Box.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        hidden: int = 64,
        learning_rate: float = 1e-3,
        expectile: float = 0.9,
        temperature: float = 10.0,
        tau: float = 0.01,
        seed: int = 0,
    ) -> None:
        if not (isinstance(action_space, spaces.Box) and len(action_space.shape) == 1):
            raise TypeError(f"IQL needs a Box of vectors as actions, got {action_space}")
        parts = [observation_space[key] for key in ("observation", "desired_goal")]
        bounds = [np.concatenate([getattr(part, name) for part in parts]) for name in ("low", "high")]
        self._low, self._high = map(torch.from_numpy, bounds)
        inputs, actions = len(self._low), action_space.shape[0]
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._q = nn.ModuleList(network(inputs + actions, 1, hidden) for _ in range(2))
            self._value = network(inputs, 1, hidden)
            self._policy = network(inputs, actions, hidden)
        self._target = copy.deepcopy(self._q).requires_grad_(False)
        learned = nn.ModuleList([self._q, self._value, self._policy])
        self._optimizer = torch.optim.Adam(learned.parameters(), learning_rate)
        self._expectile, self._temperature, self._tau = expectile, temperature, tau

    @torch.no_grad()
    def act(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action for one observation."""
        seen = {key: torch.from_numpy(observation[key]) for key in ("observation", "desired_goal")}
        action: np.ndarray = torch.tanh(self._policy(self._inputs(seen))).numpy()
        return action

    def update(self, for_values: Batch, for_policy: Batch) -> None:
        """Take one step of gradient descent.

        Args:
            for_values: Transitions whose goals the values are to be learned for.
            for_policy: Transitions whose goals the policy is to be learned for.
        """
        loss = self._value_loss(for_values.to_torch()) + self._policy_loss(for_policy.to_torch())
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch does not annotate it
        self._optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self._target.parameters(), self._q.parameters(), strict=True):
                slow.lerp_(fast, self._tau)

    def _value_loss(self, batch: Batch) -> torch.Tensor:
        seen = self._inputs(batch.observations)
        with torch.no_grad():
            after = self._value(self._inputs(batch.next_observations)).squeeze(1)
            target = batch.rewards + batch.discounts * after
        each = action_values(self._q, seen, batch.actions)
        error = self._worth(seen, batch.actions) - self._value(seen).squeeze(1)
        share = torch.where(error > 0, self._expectile, 1 - self._expectile)
        loss: torch.Tensor = (share * error.square()).mean() + (each - target).square().mean()
        return loss

    def _policy_loss(self, batch: Batch) -> torch.Tensor:
        seen = self._inputs(batch.observations)
        with torch.no_grad():
            advantage = self._worth(seen, batch.actions) - self._value(seen).squeeze(1)
            weight = torch.exp(self._temperature * advantage).clamp(max=100)
        missed = (torch.tanh(self._policy(seen)) - batch.actions).square().mean(dim=1)
        loss: torch.Tensor = (weight * missed).mean()
        return loss

    @torch.no_grad()
    def _worth(self, seen: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return what actions are worth, (B,): the lower of two opinions."""
        return action_values(self._target, seen, actions).amin(dim=0)

    def _inputs(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return observations and goals side by side, in [-1, 1]."""
        seen = torch.cat([observations["observation"], observations["desired_goal"]], dim=-1)
        return 2 * (seen - self._low) / (self._high - self._low) - 1


def action_values(networks: nn.ModuleList, seen: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """Return what each network says that actions are worth, (networks, B)."""
    inputs = torch.cat([seen, actions], dim=1)
    return torch.stack([each(inputs).squeeze(1) for each in networks])


def network(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    """Return a network of two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.GELU(),
        nn.Linear(hidden, hidden),
        nn.GELU(),
        nn.Linear(hidden, outputs),
    )
