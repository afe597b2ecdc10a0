"""Run: one training of a study, and what it is measured by, in every arm alike.

A training ends when two evaluations in a row saw nothing but successes, else when its steps are used up.
What is reported is not its best evaluation but the greedy policy at its end, in episodes of their own.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from examples.evaluate import evaluate
from examples.training.loop import train
from examples.training.parts import make_env

if TYPE_CHECKING:
    from examples.training.config import Config
    from examples.training.logs import Row

FINAL_EPISODES = 100
FINAL_SEED = 2_000_000  # neither of trainings nor of the evaluations within them
SOLVED_IN_A_ROW = 2

WITH_HER, WITHOUT_HER = "with HER", "without HER"


@dataclass(frozen=True)
class Run:
    """One training of a study.

    Attributes:
        labels: What the study tells its arms by; its seeds differ beyond.
        config: All that the training depends on.
    """

    labels: Mapping[str, str | int]
    config: Config

    @cached_property
    def key(self) -> str:
        """What tells runs apart: equal keys give equal outcomes."""
        measured = {"episodes": FINAL_EPISODES, "seed": FINAL_SEED, "solved": SOLVED_IN_A_ROW}
        text = json.dumps([dict(self.labels), self.config.as_dict(), measured], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __str__(self) -> str:
        labels = {**self.labels, "seed": self.config.seed}
        return ", ".join(
            value if isinstance(value, str) else f"{name} = {value}" for name, value in labels.items()
        )


@dataclass(frozen=True)
class Point:
    """An evaluation, and what had been spent until it was done.

    Attributes:
        episodes: Evaluated.
        env_steps: Of all environments together.
        updates: Of the agent.
        success_rate: Of the greedy policy.
        mean_return: Of its episodes.
        mean_length: Of its episodes.
        processor_seconds: Of learning and evaluating.
        seconds: By the clock.
    """

    episodes: int
    env_steps: int
    updates: int
    success_rate: float
    mean_return: float
    mean_length: float
    processor_seconds: float
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        run: Which.
        curve: Evaluations while it learned.
        final: Its last policy, in `FINAL_EPISODES` episodes.
        ended: When.
    """

    run: Run
    curve: tuple[Point, ...]
    final: Point
    ended: datetime


def execute(run: Run) -> Outcome:
    """Train and evaluate.

    Raises:
        KeyboardInterrupt: Ctrl-C; there is no outcome then.
        TypeError: As `train`.
        ValueError: As `train`.
    """
    started, processor_started = time.perf_counter(), time.process_time()
    spent: list[dict[str, float]] = []

    def look_at_clocks() -> None:
        processor = time.process_time() - processor_started
        spent.append({
            "processor_seconds": round(processor, 3),
            "seconds": round(time.perf_counter() - started, 3),
        })

    def stop(history: Sequence[Row]) -> bool:
        look_at_clocks()
        return is_solved(history)

    result = train(run.config, stop=stop)
    if result.interrupted:
        raise KeyboardInterrupt
    with closing(make_env(run.config)) as env:
        final = asdict(evaluate(env, result.agent.act, FINAL_EPISODES, FINAL_SEED))
    look_at_clocks()
    learning = [{**row, "episodes": run.config.evaluation_episodes} for row in result.history]
    rows = [*learning, {**learning[-1], **final, "episodes": FINAL_EPISODES}]
    points = [_point({**row, **clocks}) for row, clocks in zip(rows, spent, strict=True)]
    return Outcome(run, tuple(points[:-1]), points[-1], datetime.now(UTC))


def is_solved(history: Sequence[Row]) -> bool:
    """Return whether the last two evaluations saw nothing but successes."""
    last = [row["success_rate"] for row in history[-SOLVED_IN_A_ROW:]]
    return last == [1.0] * SOLVED_IN_A_ROW


def _point(row: Mapping[str, float]) -> Point:
    return Point(**{name: row[name] for name in Point.__dataclass_fields__})  # type: ignore[arg-type] # counts are ints
