"""train: runs epochs (`Run.run_epoch`) and writes files until the run ends or is interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from her_agents.training.logs import evaluated
from her_agents.training.run import Run, open_run
from her_agents.training.run_folder import RunFolder

if TYPE_CHECKING:
    from types import FrameType

    import gymnasium as gym

    from her_agents.algorithms.base import Agent
    from her_agents.training.config import Config
    from her_agents.training.logs import Row
    from her_wrappers.goals.environments import EnvFactory
    from her_wrappers.simulators import GoalSimulator


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        agent: The agent at the end of the run.
        history: One row per epoch: a dict of progress, evaluation, diagnostics and losses.
        interrupted: Whether the run was ended by Ctrl-C or SIGTERM.
    """

    agent: Agent
    history: list[Row]
    interrupted: bool

    @property
    def best_success(self) -> float:
        """Highest success rate of all evaluations; 0 without evaluations."""
        return max((row["success_rate"] for row in evaluated(self.history)), default=0.0)


def epoch_line(row: Mapping[str, float]) -> str:
    """Return one line of text with the progress, evaluation and diagnostics of an epoch."""
    texts = [
        f"epoch {row['epoch']:>3}",
        f"{row['env_steps']:>9,} steps" if row["env_steps"] else f"{row['updates']:>9,} updates",
    ]
    if "success_rate" in row:
        texts += [f"success {row['success_rate']:.2f}", f"return {row['mean_return']:.2f}"]
        texts += [f"length {row['mean_length']:.1f}"]
    if "step_seconds" in row:
        texts += [f"period {1000 * row['step_seconds']:.1f} ms, within {1000 * row['step_jitter']:.1f} ms"]
    success = "success_once" if "success_rate" in row else "collected_success"
    diagnostics = (success, "q_mean", "relabeled_success", "curriculum")
    texts += [f"{name} {row[name]:.2f}" for name in diagnostics if name in row]
    return " | ".join(texts + [f"skipped_episodes {int(n)}" for n in [row.get("skipped_episodes")] if n])


def train(
    config: Config,
    *,
    env: gym.Env[Any, Any] | GoalSimulator | EnvFactory | None = None,
    agent: Agent | type[Agent] | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    tensorboard: bool | None = None,
    stop: Callable[[list[Row]], bool] = lambda history: False,
    on_epoch: Callable[[Row], None] | None = lambda row: print(epoch_line(row), flush=True),
    on_step: Callable[[Run], None] = lambda run: None,
    backend: str = "process",
    address: str | None = None,
    timeout: float | None = None,
) -> Result:
    """Train an agent.

    Args:
        config: The options of the run, which determine its result.
        env: Function that makes the environment, used instead of ``config.env``, which is then only a name
            in messages. A `GoalSimulator` is also accepted and, with ``num_envs=1`` and ``workers=0``, a
            `gymnasium.Env`. Both are used for evaluations too, and are not closed.
        agent: Subclass of `Agent`, used instead of ``config.algo``. With ``workers=0``, an instance of a
            subclass is also accepted.
        folder: Folder of logs and checkpoints; None writes no files.
        resume: Whether to continue the run in ``folder``. Only the options ``steps`` and ``env`` may be
            changed; ``env``, for example, if the file of the environment has moved.
        tensorboard: Whether to write logs for TensorBoard. None writes them if tensorboard is installed.
        stop: Function that is called with the history, one row per epoch, after each evaluation; the run
            ends if it returns True. `is_solved` is such a function.
        on_epoch: Function that is called with the row of each completed epoch. The default prints a line per
            epoch; None prints nothing.
        on_step: Function that is called with the `Run` after each evaluation, and after each step of the
            environments. With workers, one round of episodes is a step; in an offline run, one update.
        backend: Backend of the `Collector` if ``config.workers`` is above 0: ``"local"``, ``"process"`` or
            ``"ray"``. The result does not depend on the backend.
        address: Address of a Ray cluster, as in `Collector`.
        timeout: Seconds after which a worker that has not finished its round is replaced, as in `Collector`.

    Returns:
        The agent at the end of the run, and a row for each epoch.

    Raises:
        BrokenModuleError: The environment or its module raised an error.
        ConnectionError: No Ray cluster answers at ``address``.
        EndlessEpisodeError: An episode did not end.
        ImportError: Ray is not installed (with ``backend="ray"``), or the packages that read LeRobot datasets
            are not installed (if ``config.offline`` or ``config.demos`` is such a dataset).
        InUseError: Another run writes to the folder.
        KeyboardInterrupt: Ctrl-C was pressed a second time; the first Ctrl-C only ends the run early.
        OSError: A log or a checkpoint cannot be written.
        TypeError: The algorithm does not support the spaces of the environment.
        ValueError: The environment cannot be made, is not a goal environment, or has no success flag; the
            folder already contains a run, and ``resume`` is False; ``resume`` is True, and ``folder`` is None
            or contains no run that can be continued with ``config``; torch cannot use ``config.device``; a
            reward is outside [-1, 0] with ``clip_targets``; ``config.offline`` or ``config.demos`` cannot be
            used; or ``tensorboard`` is True, and the package tensorboard is not installed.
    """
    files = None if folder is None else RunFolder(Path(folder))
    saved, buffer = None, None
    if resume and files is None:
        raise ValueError("resume=True needs the folder of the run, got folder=None")
    if files is not None and resume:
        config, saved, buffer = files.read_latest(config)
    elif files is not None:
        files.require_new()
    with ExitStack() as stack:
        workers = {"backend": backend, "address": address, "timeout": timeout}
        run = stack.enter_context(closing(open_run(config, buffer, env=env, agent=agent, **workers)))
        if files is not None and saved is not None:
            run.load_state_dict(files.path / "latest.pt", saved)
        interrupted = stack.enter_context(interrupt_flag())
        if files is not None:
            stack.callback(files.close)  # also if `open` fails after it locked the folder
            files.open(run, tensorboard=tensorboard)
        ended = False
        while not ended:
            try:
                completed = run.run_epoch(interrupted.is_set, on_step)
            except BaseException as error:
                if run.config.real and files is not None:
                    with suppress(Exception):  # the episode that caused the error is perhaps not valid
                        run.add_open()
                    files.write(run, ended=True)
                if isinstance(error, Exception):
                    error.add_note(_progress_note(run, files))
                raise
            if completed and on_epoch is not None:
                on_epoch(run.history[-1])
            ended = interrupted.is_set() or stop(run.history) or run.counts.steps >= run.config.steps
            if files is not None:
                files.write(run, ended=ended)
        return Result(run.agent, run.history, interrupted.is_set())


def _progress_note(run: Run, files: RunFolder | None) -> str:
    """Return the note of an exception that ends a run."""
    note = f"after {run.counts.steps:,} {'updates' if run.config.offline else 'steps'} of the run"
    if files is None or not (files.path / "latest.pt").exists():
        return note
    where = "with all its episodes" if run.config.real else "after its latest evaluation"
    return f"{note}; `her train --resume {files.path}` continues it {where}"


@contextmanager
def interrupt_flag() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; a second Ctrl-C raises KeyboardInterrupt.

    Schedulers of clusters send SIGTERM some seconds before they kill a program. Python handles signals in the
    main thread only; in other threads the event is never set.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        signal.signal(number, previous[signal.Signals(number)])

    for number in previous:
        signal.signal(number, interrupt)
    try:
        yield interrupted
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
