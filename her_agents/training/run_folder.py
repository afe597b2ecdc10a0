"""RunFolder: the files of a run."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from her_agents.training.checkpoints import load_checkpoint, save_checkpoint
from her_agents.training.config import make_config
from her_agents.training.logs import COUNTS, evaluated, open_tensorboard, steps_of, write_csv
from her_wrappers.data.arrays import as_corrupt
from her_wrappers.data.atomic import acquire_lock, make_lock, replacement
from her_wrappers.support.user_warning import warn_user

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from her_agents.training.config import Config
    from her_agents.training.run import Run


class RunFolder:
    """Logs and checkpoints of one run.

    The logs are ``config.json``, ``progress.csv`` and ``tensorboard/``. The checkpoints are ``best.pt``, of
    the epoch with the best evaluation or, before the first evaluation, of the latest epoch; ``latest.pt``,
    for resuming, with its replay buffer in ``buffer-<n>.replay``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # `os.chdir` must not change it
        self._latest = self.path / "latest.pt"
        self._lock: BaseFileLock | None = None
        self._tensorboard: Any = None

    def require_new(self) -> None:
        """Raise ValueError if the folder contains a checkpoint or a log."""
        found = [name for name in ("latest.pt", "best.pt", "progress.csv") if (self.path / name).exists()]
        if found:
            resume = f"continue it with resume=True (`her train --resume {self.path}`)"
            way = resume if "latest.pt" in found else "delete the folder"
            raise ValueError(
                f"{self.path} already contains a run; {way}, or choose another folder with folder= (--out)"
            )

    def read_latest(self, config: Config) -> tuple[Config, dict[str, Any], Path | None]:
        """Return the complete config, the checkpoint to resume from, and the file of its replay buffer.

        Options of ``config`` that are None or "auto" get the values that the run chose; others, except
        ``steps`` and ``env``, must be those of the run. A missing file of the replay buffer is a warning.
        """
        saved = load_checkpoint(self._latest)
        before = make_config(saved["config"]).as_dict()
        chosen = ("algo", "steps", "steps_per_epoch", "updates_per_step", "clip_targets")
        names = [name for name in chosen if getattr(config, name) in {None, "auto"}]
        if before["on_device"]:
            names += ["on_device", "num_envs", "device"]  # chosen by the simulator
        config = replace(config, **{name: before[name] for name in names})
        for name, value in config.as_dict().items():
            may_differ = name in {"steps", "env"} or (name == "device" and value == "auto")
            if before[name] != value and not may_differ:
                raise ValueError(
                    f"{self._latest} belongs to a run with {name}={before[name]!r}, but {name}={value!r} was "
                    f"given; pass {name}={before[name]!r}, or start a new run in another folder"
                )
        with as_corrupt(f"{self._latest} is damaged"):
            taken, buffer = steps_of(saved["counts"]), str(saved["buffer"])
            if not re.fullmatch(r"buffer-\d+\.replay", buffer):
                raise ValueError(f"'buffer' must be a name such as 'buffer-7.replay', got {buffer!r}")
            if not all(isinstance(value, int | float) for value in saved["counts"].values()):
                raise ValueError(f"'counts' must contain only numbers, got {saved['counts']}")
            if not all(row.keys() >= set(COUNTS) for row in saved["history"]):
                raise ValueError(f"each row of 'history' must have the keys {', '.join(COUNTS)}")
        if taken >= config.steps:
            raise ValueError(
                f"steps={config.steps} is too small to continue the run in {self.path}, which already has "
                f"{taken} steps; pass more than {taken} steps"
            )
        if not (self.path / buffer).exists():
            warn_user(
                f"{self.path / buffer}, the replay buffer of the run, is missing; the run continues with its "
                "agent and an empty buffer, so its results differ from those of an uninterrupted run"
            )
            return config, saved, None
        return config, saved, self.path / buffer

    def open(self, run: Run, *, tensorboard: bool | None) -> None:
        """Lock the folder, write the config, and create TensorBoard event files.

        If ``tensorboard`` is False, or is None and tensorboard is not installed, no event files are created.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = make_lock(self.path / "lock")
        acquire_lock(self._lock, f"the folder {self.path}")
        with self._writing():
            with replacement(self.path / "config.json") as file:  # replaces a pipe too
                file.write((json.dumps(run.config.as_dict(), indent=2) + "\n").encode())
            if tensorboard is not False:
                try:
                    self._tensorboard = open_tensorboard(self.path / "tensorboard", run.counts.steps)
                except ValueError:
                    if tensorboard:
                        raise

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Extend the message of an OSError (such as a full disk) with advice on how to continue the run."""
        try:
            yield
        except OSError as error:
            way = f"run `her train --resume {self.path}`" if self._latest.exists() else "start a new run"
            raise OSError(
                f"cannot write to {self.path}: {error.strerror or error}; fix this error, then {way}"
            ) from error

    def write(self, run: Run, *, ended: bool) -> None:
        """Write the log and the checkpoints of an epoch; if ``ended``, write ``latest.pt`` in any case."""
        with self._writing():
            if run.history and steps_of(run.history[-1]) == run.counts.steps:
                row = run.history[-1]
                write_csv(self.path / "progress.csv", run.history)
                if self._tensorboard is not None:
                    for name, value in row.items():
                        if name not in COUNTS and math.isfinite(value):
                            self._tensorboard.add_scalar(name, value, steps_of(row))
                scores = [(each["success_rate"], each["mean_return"]) for each in evaluated(run.history)]
                is_better = "success_rate" in row and scores[-1] > max(scores[:-1], default=(-1.0, 0.0))
                if is_better or not scores:
                    save_checkpoint(self.path / "best.pt", run.state_dict())
            if ended or run.counts.epochs % run.config.save_every == 0:
                self._save_latest(run)

    def _save_latest(self, run: Run) -> None:
        """Write the buffer to a new file, and then ``latest.pt``, which contains the name of the new file."""
        buffer = self.path / f"buffer-{run.counts.resets}.replay"  # the reset that resuming begins with
        run.buffer.save(buffer)
        save_checkpoint(self._latest, run.state_dict() | {"buffer": buffer.name})
        for other in self.path.glob("buffer-*.replay"):
            if other != buffer and other.stem.removeprefix("buffer-").isdigit():
                other.unlink()

    def close(self) -> None:
        """Write pending logs, and unlock the folder."""
        if self._lock is not None:
            self._lock.release()
        if self._tensorboard is not None:
            with contextlib.suppress(OSError):  # such as from a full disk; all other files are complete
                self._tensorboard.close()
