"""Throughput of a Collector: collecting during learning, many workers, and the overhead of a round.

For example:

    python -m benchmarks.collecting --quick             to see that it runs
    python -m benchmarks.collecting --out a_page.md     about ten minutes, on an idle machine with two cores

A round is one episode of each environment. The first two rounds, in which the workers start, are not
measured.

**With a learner.** The learner is simulated: after each round, it computes for as long as a worker needs
to collect a round of FetchPush-v4. With the backend `local`, the worker runs in the learner's process, so
collecting and computing alternate. With `process`, the worker collects the next round meanwhile.

**Many workers.** Each step of the environment sleeps for 20 ms, so that workers do not compete for cores.

**Overhead.** Episodes have a single step, which takes no time, so the whole time of a round is overhead.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from benchmarks.result_page import Benchmark, Grid, Requirement, at_least, spread
from her_wrappers import Collector
from her_wrappers.collecting.ray_backend import init_ray

BENCHMARK = Benchmark(
    "collecting", "How does collecting scale with workers?", __doc__, ("ray", "gymnasium-robotics", "mujoco")
)
WARM_UP = 2
"""Number of first rounds that are not measured."""

STEP_SECONDS, SLEEP_SECONDS = 0.0014, 0.02


class Timed(gym.Env[Any, Any]):
    """An environment with ``steps`` steps per episode; each step calls ``spend`` with its ``seconds``."""

    observation_space = spaces.Box(-1, 1, (25,), np.float64)
    action_space = spaces.Box(-1, 1, (4,), np.float32)

    def __init__(self, steps: int, spend: Callable[[float], None], seconds: float) -> None:
        self._steps, self._spend, self._seconds = steps, spend, seconds
        self._taken = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._taken = 0
        return np.zeros(25), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Call ``spend`` for the time of a step, and return zeros."""
        self._spend(self._seconds)
        self._taken += 1
        return np.zeros(25), -1.0, False, self._taken == self._steps, {}


def compute(seconds: float) -> None:
    """Keep one core busy for a number of seconds."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        np.sqrt(np.arange(100.0))


def make_fetch() -> gym.Env[Any, Any]:
    """Return FetchPush-v4, or an environment with steps of equal duration if FetchPush is not installed."""
    if importlib.util.find_spec("gymnasium_robotics") is None:
        return Timed(50, compute, STEP_SECONDS)
    import gymnasium_robotics  # noqa: PLC0415 - an optional dependency

    gym.register_envs(gymnasium_robotics)
    return gym.make("FetchPush-v4")


def still(observations: Any) -> np.ndarray:
    """Return zero actions, (N, 4) float32, for N observations."""
    first = observations["observation"] if isinstance(observations, dict) else observations
    return np.zeros((len(first), 4), np.float32)


def steps_per_second(
    make_env: Callable[[], Any],
    backend: str,
    num_workers: int,
    rounds: int,
    update: Callable[[int], None] = lambda steps: None,
) -> tuple[float, float]:
    """Return the environment steps per second of all workers together, and the seconds per round.

    ``update`` takes the place of a learner: it is called after each round with the round's number of steps.
    """
    steps = 0
    with Collector(make_env, still, num_workers=num_workers, backend=backend) as collector:
        for each in collector.rounds():
            update(each.episodes.num_steps)
            if each.number == WARM_UP - 1:
                started = time.perf_counter()
            elif each.number >= WARM_UP:
                steps += each.episodes.num_steps
            if each.number == WARM_UP + rounds - 1:
                break
    seconds = time.perf_counter() - started
    return steps / seconds, seconds / rounds


def overlap(rounds: int, repeats: int) -> dict[str, np.ndarray]:
    """Return the steps per second of each repeat, with the worker in the learner's process or in its own."""
    bare = steps_per_second(make_fetch, "local", 1, rounds)[0]

    def update(steps: int) -> None:
        compute(steps / bare)

    speeds: dict[str, list[float]] = {"local": [], "process": []}
    for _ in range(repeats):
        for backend, found in speeds.items():
            found.append(steps_per_second(make_fetch, backend, 1, rounds, update)[0])
    return {backend: np.array(found) for backend, found in speeds.items()}


def backends() -> list[str]:
    """Return the installed backends whose workers are separate processes."""
    return ["process", *(["ray"] if importlib.util.find_spec("ray") else [])]


def requirements(speeds: dict[str, np.ndarray], scaled: dict[str, tuple[float, float]]) -> list[Requirement]:
    """Return the requirements, with the measurements."""
    gain = float(np.median(speeds["process"] / speeds["local"]))
    found = [at_least("steps per second with a worker process / with one process", 1.6, gain)]
    for backend, (one, many) in scaled.items():
        found.append(at_least(f"steps per second with 16 workers / with 1, {backend}", 14, many / one))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="a minute rather than ten; small and rough")
    rounds, repeats, workers, steps = (2, 1, 2, 5) if options.quick else (20, 5, 16, 50)
    if "ray" in backends():  # once for all measurements: a Ray that has just started is several times slower
        init_ray(None, workers + 1)
    speeds = overlap(rounds, repeats)
    slow, no_time = partial(Timed, steps, time.sleep, SLEEP_SECONDS), partial(Timed, 1, time.sleep, 0)
    scaled = {}
    for name in backends():
        one, many = (steps_per_second(slow, name, count, rounds)[0] for count in (1, workers))
        scaled[name] = one, many
    overheads = []
    for name in ["local", *backends()]:
        for count in (1, workers):
            _, seconds = steps_per_second(no_time, name, count, 10 * rounds)
            overheads.append([name, str(count), f"{1e3 * seconds:.2f}"])
    found = requirements(speeds, scaled)
    answer = (
        f"If learning takes as much time as collecting, a worker process collects {found[0].value} times as "
        f"many steps per second as a worker in the learner's process. If environments only sleep, "
        f"{workers} workers collect {found[1].value} times as many as one."
    )
    grids = [
        Grid(
            "With a learner that takes as long as the steps",
            ["backend", "steps per second"],
            [[name, spread(values, ",.0f")] for name, values in speeds.items()],
        ),
        Grid(
            f"Steps that take {1e3 * SLEEP_SECONDS:.0f} ms",
            ["backend", "steps per second, 1 worker", f"steps per second, {workers} workers"],
            [[name, f"{one:,.0f}", f"{many:,.0f}"] for name, (one, many) in scaled.items()],
        ),
        Grid("Time of a round whose steps take no time", ["backend", "workers", "ms per round"], overheads),
    ]
    facts = {
        "run": f"{rounds} rounds, or {10 * rounds} for the overhead per round; {repeats} runs with a learner"
    }
    BENCHMARK.publish(options, answer, grids, facts, requirements=found)


if __name__ == "__main__":
    main()
