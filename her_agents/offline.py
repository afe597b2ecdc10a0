"""OfflineTraining: a run that learns from recorded episodes, without steps in the environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from her_agents.training import Training
from her_wrappers import EpisodeArchive, HindsightReplayBuffer
from her_wrappers.integrations.minari import from_minari
from her_wrappers.recording.archive import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from her_wrappers import Episode


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
        try:
            self.buffer.extend(open_episodes(name))
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"offline={name!r} cannot be used: {error}") from error
        if not self.buffer.can_sample:
            raise ValueError(f"offline={name!r} must contain recorded episodes, got none")

    def _step(self) -> None:
        """Collect nothing."""


def open_episodes(name: str) -> Iterable[Episode]:
    """Return recorded episodes.

    Args:
        name: Folder of an `EpisodeArchive`, file of a saved `HindsightReplayBuffer`, or id of a local Minari
            dataset.

    Raises:
        ImportError: ``name`` is neither a folder nor a file, and Minari is not installed.
        OSError: The dataset ``name`` does not exist or cannot be read, or the folder is not an archive.
        ValueError: The archive or the file is damaged.
    """
    path = Path(name)
    if path.is_file():
        return HindsightReplayBuffer.load(path).episodes()
    if path.is_dir():
        if not (path / MANIFEST).exists():
            raise OSError(f"the folder is not an EpisodeArchive: it has no {MANIFEST}")
        return EpisodeArchive(path)
    return from_minari(name)
