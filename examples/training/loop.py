"""The training loop: collect with many environments, learn, evaluate, save; and go on where it was left.

An epoch begins with fresh episodes, seeded by the seed of the config and the number of times that episodes
were begun; those that are open at its end are truncated. So nothing that is inside of the environments needs
to be saved, and a training resumed at the end of an epoch computes what an uninterrupted one does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from examples.training.ctrl_c import ctrl_c
from examples.training.folder import RunFolder
from examples.training.session import Training

if TYPE_CHECKING:
    from examples.agents.networks import Agent
    from examples.training.config import Config
    from examples.training.logs import Row


@dataclass(frozen=True)
class Result:
    """What came of a training.

    Attributes:
        agent: As trained last.
        history: A row for each epoch: counts, evaluation, diagnostics and losses by name.
        interrupted: Whether by Ctrl-C.
    """

    agent: Agent
    history: list[Row]
    interrupted: bool

    @property
    def best_success(self) -> float:
        """Highest success rate of an evaluation; 0 where there was none."""
        return max((row["success_rate"] for row in self.history), default=0.0)


def train(
    config: Config,
    *,
    folder: Path | None = None,
    resume: bool = False,
    tensorboard: bool = False,
    show: Callable[[Training], None] = lambda training: None,
    stop: Callable[[list[Row]], bool] = lambda history: False,
) -> Result:
    """Train an agent.

    Args:
        config: All that the outcome depends on.
        folder: Where logs and checkpoints go; without one nothing is written.
        resume: Whether to go on with ``latest.pt`` in ``folder``; of its config only ``steps`` may differ.
        tensorboard: Whether to log for TensorBoard too.
        show: Called after each step of the environments.
        stop: Asked after each evaluation, with a row for each so far, whether to end before ``steps``.

    Raises:
        InUseError: Another training writes to the folder.
        TypeError: Algorithm and environment do not fit each other.
        ValueError: The environment cannot be made or is no goal environment; there is another training in
            the folder, or none to resume; rewards are not what clipped targets assume; tensorboard is
            missing.
    """
    files = None if folder is None else RunFolder(folder)
    with ExitStack() as stack:
        training = stack.enter_context(closing(_begin(config, files, resume=resume)))
        interrupted = stack.enter_context(ctrl_c())
        if files is not None:
            stack.callback(files.close)
            files.open(training, tensorboard=tensorboard)
        training.begin_episodes()
        ended = False
        while not ended:
            training.run_epoch(interrupted.is_set, show)
            ended = (
                interrupted.is_set() or stop(training.history) or training.counts.env_steps >= config.steps
            )
            if files is not None:
                files.write(training, ended=ended)
        return Result(training.agent, training.history, interrupted.is_set())


def _begin(config: Config, files: RunFolder | None, *, resume: bool) -> Training:
    """Return a new training, or one that goes on.

    Raises:
        TypeError: As `train`.
        ValueError: As `train`.
    """
    if not resume:
        if files is not None:
            files.require_new()
        return Training(config)
    if files is None:
        raise ValueError("resume=True needs the folder of the training, got none")
    saved, buffer = files.read_latest(config)
    training = Training(config, buffer)
    training.load_state_dict(files.path / "latest.pt", saved)
    return training
