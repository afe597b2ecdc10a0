"""An agent of your own: SAC with more exploration and with wider hidden layers in the critics.

Train it: ``her train her_envs/PointReach-v0 --algo examples/own_agent.py:WideSAC --agent width=128``. Logs,
checkpoints, resuming and evaluation need no more code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from her_agents import SAC, Network, NetworkInput, SACOptions


@dataclass(frozen=True, kw_only=True)
class WideSACOptions(SACOptions):
    """The options of SAC, and one more option for this agent."""

    width: int = 256
    """Units of each hidden layer of the critics."""


class WideSAC(SAC):
    """SAC with wide critics; while exploring, a tenth of the actions is moved to the action bounds."""

    options_type = WideSACOptions
    options: WideSACOptions

    def make_network(self, num_outputs: int, num_actions: int = 0, **options: Any) -> nn.Module:
        """Return a wide network for a critic, whose ``num_actions`` is not 0, else SAC's usual network."""
        if not num_actions:
            return super().make_network(num_outputs, **options)
        width = (self.options.width, self.options.width)
        return Network(self.inputs, width, num_outputs, num_actions=num_actions).to(self.device)

    def choose(self, inputs: NetworkInput, explore: bool) -> torch.Tensor:
        """Return actions of SAC; while exploring, one in ten actions is moved to the action bounds."""
        if not explore:
            return super().choose(inputs, explore)
        actions, _ = self.sample(inputs)
        is_bold = torch.rand(len(actions), 1, generator=self.generator, device=self.device) < 0.1
        return self.actions.to_env(torch.where(is_bold, actions.sign(), actions))
