"""RunFolder: what a training leaves on disk, and how another goes on from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.training.checkpoints import load_checkpoint, require_alike, save_checkpoint
from examples.training.logs import TensorBoard, write_csv
from her_wrappers.files.atomic import Claim

if TYPE_CHECKING:
    from examples.training.config import Config
    from examples.training.session import Training


class RunFolder:
    """Logs and checkpoints of one training.

    ``config.json``, ``progress.csv`` and ``tensorboard/``; ``best.pt`` by evaluation, ``latest.pt`` with the
    replay buffer beside it, and ``history/epoch_<n>.pt``.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._latest = path / "latest.pt"
        self._claim: Claim | None = None
        self._tensorboard: TensorBoard | None = None

    def require_new(self) -> None:
        """Refuse to write over a training.

        Raises:
            ValueError: There is one.
        """
        if self._latest.exists():
            raise ValueError(
                f"there is a training in {self.path} already; go on with it by --resume {self.path}, "
                "or choose another folder by --out"
            )

    def read_latest(self, config: Config) -> tuple[dict[str, Any], Path]:
        """Return the checkpoint to go on from, and the file of its replay buffer.

        Raises:
            ValueError: There is none, it is of another training, or that is at its end.
        """
        saved = load_checkpoint(self._latest)
        require_alike(self._latest, saved["config"], config.as_dict())
        if (taken := saved["counts"]["env_steps"]) >= config.steps:
            raise ValueError(
                f"{self.path} is at {taken} of {config.steps} steps already; pass more by --steps"
            )
        return saved, self.path / saved["buffer"]

    def open(self, training: Training, *, tensorboard: bool) -> None:
        """Begin to write.

        Raises:
            InUseError: Another training writes to the folder.
            ValueError: The package tensorboard is wanted and missing.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._claim = Claim(self.path / "lock", f"the folder {self.path}")
        if tensorboard:
            self._tensorboard = TensorBoard(self.path / "tensorboard", training.counts.env_steps)
        (self.path / "config.json").write_text(json.dumps(training.config.as_dict(), indent=2) + "\n")

    def write(self, training: Training, *, ended: bool) -> None:
        """Write what an epoch has brought.

        Args:
            training: After an epoch, or after a part of one.
            ended: Whether to save all that resuming needs even if it is not its turn.
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
        """Write the buffer, then the checkpoint that names it, so that there is always a pair that fits."""
        buffer = self.path / f"buffer-{training.counts.begun}.replay"
        training.buffer.save(buffer)
        save_checkpoint(self._latest, training.state_dict() | {"buffer": buffer.name})
        for other in self.path.glob("buffer-*.replay"):
            if other != buffer and other.stem.removeprefix("buffer-").isdigit():
                other.unlink()

    def close(self) -> None:
        """Write what is left, and let others write."""
        if self._claim is not None:
            self._claim.release()
        if self._tensorboard is not None:
            self._tensorboard.close()


def _merit(row: Mapping[str, float]) -> tuple[float, float]:
    return row["success_rate"], row["mean_return"]
