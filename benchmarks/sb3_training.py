"""Training with Stable-Baselines3: its HerReplayBuffer compared with ours in the same run.

For example:

    python -m benchmarks.sb3_training --quick             a short test
    python -m benchmarks.sb3_training --out a_page.md     some minutes

SAC with SB3's defaults (two hidden layers of 256 units, batches of 256, one update after every step) is
trained on an environment without physics, which takes little time. All times are processor times. *Replay* is
the time of all calls of `add` and `sample`, including the environment's `compute_reward`; a step also
consists of environment, policy and update.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import stable_baselines3 as sb3
import torch

from benchmarks.array_envs import PushSpaces
from benchmarks.replay_buffers.sb3 import steps_of
from benchmarks.replay_task import HORIZON, make_episodes
from benchmarks.result_page import Benchmark, Grid, Requirement, at_least, in_words
from her_wrappers.integrations.sb3 import HerReplayBuffer

BENCHMARK = Benchmark(
    "sb3_training",
    "How much time does replay take in Stable-Baselines3?",
    __doc__,
    ("stable-baselines3",),
)
OURS, SB3 = "her_wrappers", "Stable-Baselines3"
CLASSES: dict[str, type[sb3.HerReplayBuffer]] = {OURS: HerReplayBuffer, SB3: sb3.HerReplayBuffer}


class Training:
    """A run of SAC with a full buffer of ``slots`` transitions."""

    def __init__(self, kind: type[sb3.HerReplayBuffer], slots: int) -> None:
        self._model = sb3.SAC(
            "MultiInputPolicy",
            PushSpaces(),
            replay_buffer_class=kind,
            buffer_size=slots,
            learning_starts=0,
            device="cpu",
            seed=0,
        )
        fill(self._model.replay_buffer, slots)
        self._replay = 0.0
        for name in ("add", "sample"):
            setattr(self._model.replay_buffer, name, self._timed(getattr(self._model.replay_buffer, name)))
        self.turn(HORIZON)  # to warm up

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            result = function(*arguments, **options)
            self._replay += time.thread_time() - start
            return result

        return timed

    def turn(self, steps: int) -> tuple[float, float]:
        """Train for ``steps`` steps; return the microseconds per step, in total and of the replay."""
        before, start = self._replay, time.thread_time()
        self._model.learn(steps, reset_num_timesteps=False, log_interval=10**9)
        total, replay = time.thread_time() - start, self._replay - before
        return 1e6 * total / steps, 1e6 * replay / steps


def fill(buffer: Any, slots: int) -> None:
    """Add random walks until a buffer is full."""
    walks = [steps_of(episode) for episode in make_episodes(100)]
    for number in range(-(-slots // HORIZON)):
        for step in walks[number % len(walks)]:
            buffer.add(*step)


@dataclass(frozen=True)
class Result:
    """Microseconds in each turn, (turns,), by the name of the buffer; all buffers have one capacity."""

    slots: int  # capacity of the buffers
    steps: dict[str, np.ndarray]  # per training step
    replays: dict[str, np.ndarray]  # of the replay in a step

    def share(self, name: str) -> np.ndarray:
        """Return the replay's share of the time of a step, (turns,)."""
        return self.replays[name] / self.steps[name]


def measure(slots: int, turns: int, steps: int) -> Result:
    """Train with both buffers in turns; return the microseconds of each turn."""
    runs = {name: Training(kind, slots) for name, kind in CLASSES.items()}
    times = [{name: run.turn(steps) for name, run in runs.items()} for _ in range(turns)]
    both = [{name: np.array([turn[name][i] for turn in times]) for name in CLASSES} for i in range(2)]
    return Result(slots, *both)


def time_grid(results: Sequence[Result]) -> Grid:
    """Return the table with the microseconds per training step and the share of replay, for each buffer."""
    rows = []
    for result in results:
        for name in CLASSES:
            step, replay, share = map(
                np.median, (result.steps[name], result.replays[name], result.share(name))
            )
            rows.append([f"{result.slots:,}", name, f"{step:,.0f}", f"{replay:,.0f}", f"{share:.1%}"])
    return Grid("Time of a step", ["capacity", "buffer", "step [us]", "replay [us]", "share of replay"], rows)


def requirements(small: Result, large: Result) -> list[Requirement]:
    """Return the requirements, with the medians of the ratios within a turn."""
    fast = f"time of a step with {SB3}'s buffer / with ours, {small.slots:,} slots"
    share = f"share of replay with {SB3}'s buffer / with ours, {large.slots:,} slots"
    return [
        at_least(fast, 1, float(np.median(small.steps[SB3] / small.steps[OURS]))),
        at_least(share, 10, float(np.median(large.share(SB3) / large.share(OURS)))),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="a short, inaccurate measurement: seconds instead of minutes")
    torch.set_num_threads(1)
    sizes, turns, steps = ((1000, 10_000), 3, 50) if options.quick else ((10_000, 1_000_000), 10, 200)
    results = [measure(slots, turns, steps) for slots in sizes]
    ours, theirs = (float(np.median(results[1].share(name))) for name in (OURS, SB3))
    gain = float(np.median(results[1].steps[SB3] / results[1].steps[OURS]))
    answer = f"When SAC is trained with a buffer of {sizes[1]:,} transitions, replay takes {theirs:.1%} "
    answer += f"of the time with Stable-Baselines3's buffer and {ours:.1%} with ours. "
    answer += f"A step is {in_words(gain)} with ours."
    facts = {"run": f"{turns} turns of {steps} steps"}
    BENCHMARK.publish(options, answer, [time_grid(results)], facts, requirements=requirements(*results))


if __name__ == "__main__":
    main()
