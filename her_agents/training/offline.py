"""OfflineTraining: a run that learns from recorded episodes, and collects no episodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from her_agents.training.run import Training
from her_wrappers.integrations.recordings import open_episodes

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from her_wrappers import Batch


class OfflineTraining(Training):
    """A run that collects no episodes: its agent learns from the recorded episodes of ``config.offline``.

    The agent is updated once in each step of the run, so `Counts.steps` counts updates. All recorded episodes
    count as demonstrations, so an agent with an option ``bc_weight`` above 0 also imitates recorded actions.
    The environment is used for evaluations and, when the run begins, for one random step, whose info shows
    the name of the success flag.
    """

    def _open(self, buffer_file: Path | None) -> None:
        self.buffer = self._make_buffer(self._evaluation_env, buffer_file)
        if buffer_file is not None:  # the saved buffer has the episodes
            return
        name = str(self.config.offline)
        try:
            self.buffer.extend(open_episodes(name))
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"offline={name!r} cannot be used: {error}") from error
        if not self.buffer.can_sample:
            raise ValueError(f"offline={name!r} must contain recorded episodes, got none")

    def _step(self) -> None:
        """Do nothing, since no episodes are collected."""

    def _learn(self, batch: Batch) -> dict[str, torch.Tensor]:
        # In a batch, negative indices mark demonstrations.
        return self.agent.update(replace(batch, index=-2 - abs(batch.index)))
