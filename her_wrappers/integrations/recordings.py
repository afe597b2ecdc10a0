"""open_episodes: read recorded episodes of all supported formats, by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from her_wrappers.data.arrays import CorruptFileError
from her_wrappers.integrations.minari import from_minari
from her_wrappers.recording.archive import EpisodeArchive
from her_wrappers.recording.episode import Episode
from her_wrappers.replay.buffer import HindsightReplayBuffer

SB3_FILES = {".pkl", ".zip"}
SB3_ADVICE = "; Stable-Baselines3 saves pickles, which are not read: see docs/stable_baselines3.md"

LEROBOT_INFO = Path("meta") / "info.json"  # A file that each LeRobot dataset has


def open_episodes(name: str) -> Iterable[Episode]:
    """Return the recorded episodes in a folder, a file or a local Minari dataset.

    Args:
        name: Folder of an `EpisodeArchive` or of a LeRobot dataset, file of a saved `HindsightReplayBuffer`,
            or id of a local Minari dataset.

    Raises:
        CorruptFileError: The file is damaged, or was not saved by this package.
        FileNotFoundError: ``name`` does not exist; or it is a Minari dataset, but Minari is not installed.
        ImportError: ``name`` is a LeRobot dataset, and the packages that read it are not installed.
        OSError: A file cannot be read.
        ValueError: The archive is damaged.
    """
    path = Path(name)
    if path.is_dir() and (path / LEROBOT_INFO).is_file():
        from her_wrappers.integrations.lerobot import from_lerobot  # noqa: PLC0415 - an extra

        return from_lerobot(path)
    if path.is_dir():
        return EpisodeArchive(path)
    if path.exists():
        try:
            return HindsightReplayBuffer.load(path).episodes()
        except CorruptFileError as error:
            raise CorruptFileError(f"{error}{SB3_ADVICE if path.suffix in SB3_FILES else ''}") from error
    try:
        return from_minari(name)
    except (ImportError, OSError) as error:
        raise FileNotFoundError(
            f"{name} is neither a file nor a folder, and cannot be read as a Minari dataset: {error}"
        ) from error
