"""RunFolder: the files of a training, from which it can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from her_agents.checkpoints import load_checkpoint, save_checkpoint
from her_agents.logs import TensorBoard, write_csv
from her_wrappers.files.atomic import Claim

if TYPE_CHECKING:
    from her_agents.config import Config
    from her_agents.training import Training


class RunFolder:
    """Logs and checkpoints of one training.

    ``config.json``, ``progress.csv`` and ``tensorboard/``; ``best.pt`` with the best evaluation,
    ``latest.pt`` and its replay buffer for resuming, and ``history/epoch_<n>.pt``.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._latest = path / "latest.pt"
        self._claim: Claim | None = None
        self._tensorboard: TensorBoard | None = None

    def require_new(self) -> None:
        """Raise if the folder holds a training.

        Raises:
            ValueError: The folder holds a training.
        """
        if self._latest.exists():
            raise ValueError(
                f"there is a training in {self.path} already; continue it with --resume {self.path}, "
                "or choose another folder with --out"
            )

    def read_latest(self, config: Config) -> tuple[dict[str, Any], Path]:
        """Return the checkpoint to resume from, and the file of its replay buffer.

        Raises:
            ValueError: The folder has no checkpoint, or it has other options, or its training is complete.
        """
        saved = load_checkpoint(self._latest)
        given, before = config.as_dict(), saved["config"]
        for name in given | before:
            if name != "steps" and before.get(name) != given.get(name):
                raise ValueError(
                    f"{self._latest} is of a training with {name} {before.get(name)!r}, got "
                    f"{given.get(name)!r}; only steps may change"
                )
        if (taken := saved["counts"]["env_steps"]) >= config.steps:
            raise ValueError(
                f"{self.path} is at {taken} of {config.steps} steps already; pass more by --steps"
            )
        return saved, self.path / saved["buffer"]

    def open(self, training: Training, *, tensorboard: bool) -> None:
        """Start writing.

        Raises:
            InUseError: Another training writes to the folder.
            ValueError: ``tensorboard`` is True and the package is not installed.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._claim = Claim(self.path / "lock", f"the folder {self.path}")
        if tensorboard:
            self._tensorboard = TensorBoard(self.path / "tensorboard", training.counts.env_steps)
        (self.path / "config.json").write_text(json.dumps(training.config.as_dict(), indent=2) + "\n")

    def write(self, training: Training, *, ended: bool) -> None:
        """Write the log and the checkpoints of an epoch.

        Args:
            training: A training at the end of an epoch, or interrupted during one.
            ended: Whether the training ends here, so that ``latest.pt`` is written in any case.
        """
        epochs, config = training.counts.epochs, training.config
        if training.history and training.history[-1]["env_steps"] == training.counts.env_steps:
            self._log(training)
            if config.history_every and epochs % config.history_every == 0:
                (self.path / "history").mkdir(exist_ok=True)
                save_checkpoint(self.path / "history" / f"epoch_{epochs:05}.pt", training.state_dict())
        if ended or epochs % config.save_every == 0:
            self._save_latest(training)

    def _log(self, training: Training) -> None:
        row = training.history[-1]
        write_csv(self.path / "progress.csv", training.history)
        if self._tensorboard is not None:
            self._tensorboard.write(row)
        if _merit(row) > max(map(_merit, training.history[:-1]), default=(-1.0, 0.0)):
            save_checkpoint(self.path / "best.pt", training.state_dict())

    def _save_latest(self, training: Training) -> None:
        """Write the buffer, then the checkpoint with its name, so that there is always a matching pair."""
        buffer = self.path / f"buffer-{training.counts.resets}.replay"
        training.buffer.save(buffer)
        save_checkpoint(self._latest, training.state_dict() | {"buffer": buffer.name})
        for other in self.path.glob("buffer-*.replay"):
            if other != buffer and other.stem.removeprefix("buffer-").isdigit():
                other.unlink()

    def close(self) -> None:
        """Write pending logs, and let another training write to the folder."""
        if self._claim is not None:
            self._claim.release()
        if self._tensorboard is not None:
            self._tensorboard.close()


def _merit(row: Mapping[str, float]) -> tuple[float, float]:
    return row["success_rate"], row["mean_return"]
