"""The number of Python functions and files of her_wrappers in one call of the replay buffer.

Each call takes time, and a reader of the code follows the calls from file to file.

For example:

    python -m benchmarks.call_path             a second
    python -m benchmarks.call_path --quick     the same counts, in another folder

`sys.setprofile` reports the call events of Python functions, including methods, lambdas and (before Python
3.12) comprehensions. Only functions in files of her_wrappers are counted. A switch is a call of a function in
another file than the function called before. The environment is BitFlipping. The buffer has the default
options, and contains 20 episodes when it is sampled. Before, another buffer is filled and sampled, so that
work that is done once in a process is not counted. The first sample computes the indices of several batches.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

import her_envs  # noqa: F401 - registers the environments
import her_wrappers
from benchmarks.benchmark import Benchmark
from her_agents.studies.result_page import Grid, Requirement, at_most, requirement_grid
from her_wrappers import Episode, EpisodeRecorder, HindsightReplayBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

BENCHMARK = Benchmark("call_path", "Functions and files behind one call of the replay buffer", __doc__)
PACKAGE = str(Path(her_wrappers.__file__).parent)
EPISODES = 20
"""Number of episodes in a buffer when it is sampled."""

HEADER = ["operation", "calls", "functions", "files", "switches between files"]
VERSION_0_1 = [
    ["constructor", "217", "94", "23", "92"],
    ["first `add_episode`", "187", "109", "20", "110"],
    ["first `sample(64)`", "84", "56", "22", "53"],
    ["first `sample(64)` with `n_steps=3`", "136", "69", "23", "77"],
]
"""Counts of this command with the code of version 0.1."""


@dataclass(frozen=True)
class CallPath:
    """The functions of her_wrappers that ran, in the order of their calls.

    Attributes:
        calls: File and name of each called function.
    """

    calls: tuple[tuple[str, str], ...]

    @property
    def functions(self) -> int:
        """Number of different functions."""
        return len(set(self.calls))

    @property
    def files(self) -> int:
        """Number of different files."""
        return len({file for file, _ in self.calls})

    @property
    def switches(self) -> int:
        """Number of calls of a function in another file than the function called before."""
        return sum(file != before for (file, _), (before, _) in zip(self.calls[1:], self.calls, strict=False))


def call_path(work: Callable[[], Any]) -> CallPath:
    """Call a function, and return the calls of Python functions of her_wrappers inside it."""
    calls = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return CallPath(tuple(calls))


def record_episodes(env: gym.Env[Any, Any], count: int) -> list[Episode]:
    """Record episodes of random actions."""
    episodes: list[Episode] = []
    recorder = EpisodeRecorder(env, episodes.append)
    env.action_space.seed(0)
    recorder.reset(seed=0)
    while len(episodes) < count:
        _, _, terminated, truncated, _ = recorder.step(env.action_space.sample())
        if terminated or truncated:
            recorder.reset()
    return episodes


def measure() -> dict[str, CallPath]:
    """Return the call path of each operation, by its name on the page."""
    env = gym.make("her_envs/BitFlipping-v0")

    def make_buffer(**options: Any) -> HindsightReplayBuffer:
        return HindsightReplayBuffer.for_env(env, buffer_size=10_000, seed=0, **options)

    def add_and_sample(**options: Any) -> tuple[CallPath, CallPath]:
        buffer, (first, *others) = make_buffer(**options), record_episodes(env, EPISODES)
        added = call_path(lambda: buffer.add_episode(first))
        buffer.add_episodes(others)
        return added, call_path(lambda: buffer.sample(64))

    add_and_sample()  # imports inside functions and cached results are not counted
    constructed = call_path(make_buffer)
    added, sampled = add_and_sample()
    _, sampled_n_steps = add_and_sample(n_steps=3)
    return {
        "constructor": constructed,
        "first `add_episode`": added,
        "first `sample(64)`": sampled,
        "first `sample(64)` with `n_steps=3`": sampled_n_steps,
    }


def requirements(paths: dict[str, CallPath]) -> list[Requirement]:
    """Return the required limits, with the counts."""
    _, added, sampled, sampled_n_steps = paths.values()
    return [
        at_most("calls in `sample(64)`", 45, len(sampled.calls)),
        at_most("files in `sample(64)`", 10, sampled.files),
        at_most("calls in `sample(64)` with `n_steps=3`", 80, len(sampled_n_steps.calls)),
        at_most("calls in `add_episode`", 90, len(added.calls)),
        at_most("files in `add_episode`", 10, added.files),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Count the calls, print the counts, and write the page."""
    options = BENCHMARK.parse(arguments, quick="the same counts, with the page in another folder")
    paths = measure()
    rows = [
        [name, str(len(path.calls)), str(path.functions), str(path.files), str(path.switches)]
        for name, path in paths.items()
    ]
    grids = [
        requirement_grid(requirements(paths)),
        Grid("Counts", HEADER, rows),
        Grid("Version 0.1", HEADER, VERSION_0_1),
    ]
    BENCHMARK.publish(options, grids, {})


if __name__ == "__main__":
    main()
