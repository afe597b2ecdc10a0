"""RunFolder: the files of a run."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from her_agents.checkpoints import load_checkpoint, save_checkpoint
from her_agents.config import make_config
from her_agents.logs import COUNTS, open_tensorboard, steps_of, write_csv
from her_wrappers.files.arrays import as_corrupt
from her_wrappers.files.atomic import acquire_lock, replacement

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from her_agents.config import Config
    from her_agents.training import Training


class RunFolder:
    """Logs and checkpoints of one run.

    The logs are ``config.json``, ``progress.csv`` and ``tensorboard/``. The checkpoints are ``best.pt``, from
    the best evaluation; ``latest.pt`` with its replay buffer, for resuming; and ``history/epoch_<n>.pt``.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._latest = path / "latest.pt"
        self._lock: BaseFileLock | None = None
        self._tensorboard: Any = None

    def require_new(self) -> None:
        """Check that the folder does not contain results of a run.

        Raises:
            ValueError: The folder contains a checkpoint or a log.
        """
        found = [name for name in ("latest.pt", "best.pt", "progress.csv") if (self.path / name).exists()]
        if found:
            way = f"continue it with --resume {self.path}" if "latest.pt" in found else "delete the folder"
            raise ValueError(
                f"{self.path} already contains a run; {way}, or choose another folder with --out"
            )

    def read_latest(self, config: Config) -> tuple[dict[str, Any], Path]:
        """Return the checkpoint to resume from, and the file of its replay buffer.

        Raises:
            CorruptFileError: The checkpoint is damaged.
            ValueError: The folder has no checkpoint, the checkpoint belongs to other options, or the run is
                already complete.
        """
        saved = load_checkpoint(self._latest)
        given, before = config.as_dict(), make_config(saved["config"]).as_dict()
        for name in given:
            may_differ = name == "steps" or (name == "device" and given[name] == "auto")
            if before[name] != given[name] and not may_differ:
                raise ValueError(
                    f"{self._latest} belongs to a run with {name}={before[name]!r}, got "
                    f"{given[name]!r}; only steps may change when a run is resumed"
                )
        with as_corrupt(f"{self._latest} is damaged"):
            taken, buffer = steps_of(saved["counts"]), str(saved["buffer"])
            if Path(buffer).name != buffer:
                raise ValueError(f"buffer must be the name of a file in its folder, got {buffer!r}")
            if not all(isinstance(value, int | float) for value in saved["counts"].values()):
                raise ValueError("counts must be numbers")
            if not all(row.keys() >= {*COUNTS, "success_rate", "mean_return"} for row in saved["history"]):
                raise ValueError("a row of history is incomplete")
        if taken >= config.steps:
            raise ValueError(
                f"steps must be above {taken}, the steps so far in {self.path}, got {config.steps}; "
                "pass a larger --steps"
            )
        return saved, self.path / buffer

    def open(self, training: Training, *, tensorboard: bool) -> None:
        """Lock the folder, write the config, and begin event files if ``tensorboard`` is True.

        Raises:
            InUseError: Another run writes to the folder.
            ValueError: ``tensorboard`` is True, and the package tensorboard is not installed.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = acquire_lock(self.path / "lock", f"the folder {self.path}")
        with self._writing():
            with replacement(self.path / "config.json") as file:  # replaces a pipe too
                file.write((json.dumps(training.config.as_dict(), indent=2) + "\n").encode())
            if tensorboard:
                self._tensorboard = open_tensorboard(self.path / "tensorboard", training.counts.steps)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Add advice on how to continue to the OSError of a write, for example if the disk is full."""
        try:
            yield
        except OSError as error:
            way = f"her train --resume {self.path}" if self._latest.exists() else "a new run"
            raise OSError(
                f"cannot write to {self.path}: {error.strerror or error}; make room, then continue with {way}"
            ) from error

    def write(self, training: Training, *, ended: bool) -> None:
        """Write the log and the checkpoints after an epoch that was completed or interrupted.

        Args:
            training: The run.
            ended: Whether the run ends after this epoch; then ``latest.pt`` is written regardless of
                ``save_every``.

        Raises:
            OSError: A file cannot be written, for example because the disk is full.
        """
        with self._writing():
            epochs, config = training.counts.epochs, training.config
            if training.history and steps_of(training.history[-1]) == training.counts.steps:
                row = training.history[-1]
                write_csv(self.path / "progress.csv", training.history)
                if self._tensorboard is not None:
                    for name, value in row.items():
                        if name not in COUNTS and math.isfinite(value):
                            self._tensorboard.add_scalar(name, value, steps_of(row))
                if _score(row) > max(map(_score, training.history[:-1]), default=(-1.0, 0.0)):
                    save_checkpoint(self.path / "best.pt", training.state_dict())
                if config.history_every and epochs % config.history_every == 0:
                    (self.path / "history").mkdir(exist_ok=True)
                    save_checkpoint(self.path / "history" / f"epoch_{epochs:05}.pt", training.state_dict())
            if ended or epochs % config.save_every == 0:
                self._save_latest(training)

    def _save_latest(self, training: Training) -> None:
        """Write the buffer, then a checkpoint with its file name; a crash leaves a matching pair of files."""
        buffer = self.path / f"buffer-{training.counts.resets}.replay"
        training.buffer.save(buffer)
        save_checkpoint(self._latest, training.state_dict() | {"buffer": buffer.name})
        for other in self.path.glob("buffer-*.replay"):
            if other != buffer and other.stem.removeprefix("buffer-").isdigit():
                other.unlink()

    def close(self) -> None:
        """Write pending logs, and unlock the folder."""
        if self._lock is not None:
            self._lock.release()
        if self._tensorboard is not None:
            with contextlib.suppress(OSError):  # of a full disk; all other files are complete
                self._tensorboard.close()


def _score(row: Mapping[str, float]) -> tuple[float, float]:
    return row["success_rate"], row["mean_return"]
