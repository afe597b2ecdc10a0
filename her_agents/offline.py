"""OfflineTraining: a run that learns from recorded episodes, without steps in the environment."""

from __future__ import annotations

from pathlib import Path

from her_agents.training import Training
from her_wrappers import EpisodeArchive, HindsightReplayBuffer
from her_wrappers.integrations.minari import from_minari


class OfflineTraining(Training):
    """A run that learns from the recorded episodes of ``config.offline``.

    A step of this run is an update of the agent. The environment is stepped by evaluations only, and once to
    find the success flag.
    """

    def _open(self, buffer_file: Path | None) -> None:
        self.buffer = self._make_buffer(self._test_env, buffer_file)
        if buffer_file is not None:  # the saved buffer has the episodes
            return
        name = str(self.config.offline)
        path = Path(name)
        try:
            if path.is_file():
                self.buffer.extend(HindsightReplayBuffer.load(path).episodes())
            else:
                self.buffer.extend(EpisodeArchive(path) if path.is_dir() else from_minari(name))
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"offline={name!r} cannot be used: {error}") from error
        if not self.buffer.can_sample:
            raise ValueError(f"offline={name!r} must contain recorded episodes, got none")

    def _step(self) -> None:
        """Collect nothing."""
