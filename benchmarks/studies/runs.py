"""Run: one run of a study, measured in the same way in every variant.

A run ends when all episodes of two consecutive evaluations were successes, or after its last step. The
reported success rate is the rate of the final greedy policy in separate episodes, not the best evaluation.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from her_agents.training.checkpoints import agent_of, load_checkpoint
from her_agents.training.config import Config
from her_agents.training.evaluation import evaluate
from her_agents.training.loop import SOLVED_IN_A_ROW, epoch_line, is_solved, train
from her_wrappers.goals.environments import make_env

if TYPE_CHECKING:
    from pathlib import Path

    from her_agents.algorithms.base import Agent
    from her_agents.training.logs import Row

FINAL_EPISODES = 100
FINAL_SEED = 2_000_000  # differs from the seeds of runs and of their evaluations

WITH_HER, WITHOUT_HER = "with HER", "without HER"


@dataclass(frozen=True)
class Run:
    """One run of a study."""

    labels: Mapping[
        str, str | int
    ]  # of the variant, such as task and algorithm; its runs differ in seeds only
    config: Config
    folder: Path | None = None  # of checkpoints, from which an interrupted run continues

    @cached_property
    def key(self) -> str:
        """Digest of labels, options and settings of the evaluations; equal keys mean equal results."""
        measured = {"episodes": FINAL_EPISODES, "seed": FINAL_SEED, "solved": SOLVED_IN_A_ROW}
        # Without the defaults, so that new options of `Config` do not change the keys of existing results.
        defaults = Config(self.config.env, "dqn").as_dict()
        options = {name: value for name, value in self.config.as_dict().items() if value != defaults[name]}
        named = [self.config.env, self.config.algo, dict(self.labels), options, measured]
        text = json.dumps(named, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __str__(self) -> str:
        labels = {**self.labels, "seed": self.config.seed}
        return ", ".join(
            value if isinstance(value, str) else f"{name} = {value}" for name, value in labels.items()
        )


@dataclass(frozen=True)
class Point:
    """An evaluation, and the cost of the run until this evaluation."""

    episodes: int  # that were evaluated
    env_steps: int  # of all environments together
    updates: int
    success_rate: float  # of the greedy policy
    mean_return: float
    mean_length: float
    processor_seconds: float  # without workers, and without the time before a run was resumed
    seconds: float  # wall-clock time


@dataclass(frozen=True)
class RunResult:
    """The result of a run."""

    run: Run
    curve: tuple[Point, ...]  # the evaluations during the run
    final: Point  # the evaluation of the final policy, in `FINAL_EPISODES` episodes
    ended: datetime

    def __str__(self) -> str:
        return (
            f"{self.run}: success {self.final.success_rate:.2f} after {self.final.env_steps:,} steps, "
            f"{self.final.processor_seconds:.0f} processor seconds"
        )


def execute(run: Run) -> RunResult:
    """Execute a run: train, then evaluate the final policy."""
    begin, config = time.process_time(), run.config
    processor: list[float] = []

    def stop(history: Sequence[Row]) -> bool:
        processor.append(time.process_time() - begin)
        return is_solved(history)

    agent, history = _train(run, stop)
    evaluation = time.perf_counter()
    with closing(make_env(config.env, disable_env_checker=True, **config.env_kwargs)) as env:
        final = asdict(evaluate(env, agent.act, FINAL_EPISODES, FINAL_SEED))
    processor.append(time.process_time() - begin)
    rows = [{**row, "episodes": config.evaluation_episodes} for row in history]
    seconds = rows[-1]["seconds"] + time.perf_counter() - evaluation
    rows.append({**rows[-1], **final, "episodes": FINAL_EPISODES, "seconds": seconds})
    processor = [0.0] * (len(rows) - len(processor)) + processor
    points = []
    for row, spent in zip(rows, processor, strict=True):
        cost = {"processor_seconds": round(spent, 6), "seconds": round(row["seconds"], 6)}
        known: dict[str, Any] = row | cost
        points.append(Point(**{name: known[name] for name in Point.__dataclass_fields__}))
    return RunResult(run, tuple(points[:-1]), points[-1], datetime.now(UTC))


def _train(run: Run, stop: Callable[[list[Row]], bool]) -> tuple[Agent, list[Row]]:
    """Train, or continue an interrupted run from its folder; return the agent and the history."""
    latest = None if run.folder is None else run.folder / "latest.pt"
    resume = latest is not None and latest.exists()
    if latest is not None and resume:
        saved = load_checkpoint(latest)
        if saved["counts"]["env_steps"] >= run.config.steps or is_solved(saved["history"]):
            return agent_of(saved, latest), saved["history"]
    on_epoch = None if run.folder is None else partial(_print_epoch, run)
    result = train(run.config, folder=run.folder, resume=resume, stop=stop, on_epoch=on_epoch)
    if result.interrupted:
        raise KeyboardInterrupt
    return result.agent, result.history


def _print_epoch(run: Run, row: Row) -> None:
    print(f"{run}: {epoch_line(row)}", flush=True)
