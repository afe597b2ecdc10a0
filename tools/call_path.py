"""Print how many functions, classes and files one call of a buffer, a recorder or the checker goes through.

    python -m tools.call_path

These numbers matter since each call takes time, and a reader of the code follows the calls from file to file.
Calls of Python functions in files of her_wrappers are counted by `sys.setprofile`, including methods, lambdas
and, before Python 3.12, comprehensions. A switch is a call of a function in another file than the function
called before. A return is a switch to a file in which an earlier function was called. The environment is
BitFlipping. Each operation first runs once without counting, since some work is done only once in a process.

For `check_goal_env`, the environment is PointReach, and fewer functions are counted: functions outside the
rules that, when they are called, have the environment or one of its layers as a variable or as an attribute
of a variable. Each function counts only at its first call.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

import her_envs  # noqa: F401 - registers the environments
import her_wrappers
from benchmarks.replay_task import record_episodes
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, check_goal_env

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PACKAGE = str(Path(her_wrappers.__file__).parent)
EPISODES = 20
"""Number of episodes in a buffer when it is sampled."""

COUNTS = ("calls", "functions", "classes", "files", "switches", "returns")
CHECK = "`check_goal_env`"


@dataclass(frozen=True)
class CallPath:
    """The functions of her_wrappers that ran, in the order of their calls.

    Attributes:
        path: File and name of each called function.
    """

    path: tuple[tuple[str, str], ...]

    @property
    def calls(self) -> int:
        """Number of calls."""
        return len(self.path)

    @property
    def functions(self) -> int:
        """Number of different functions."""
        return len(set(self.path))

    @property
    def classes(self) -> int:
        """Number of different classes that define the functions."""
        methods = ((file, name.partition(".<locals>")[0].rpartition(".")[0]) for file, name in self.path)
        return len({(file, owner) for file, owner in methods if owner})

    @property
    def files(self) -> int:
        """Number of different files."""
        return len({file for file, _ in self.path})

    @property
    def returns(self) -> int:
        """Number of switches to a file in which an earlier function was called."""
        files = [file for file, _ in self.path]
        return sum(file != files[i - 1] and file in files[:i] for i, file in enumerate(files) if i)

    @property
    def switches(self) -> int:
        """Number of calls of a function that is in another file than the function called before."""
        return sum(file != before for (file, _), (before, _) in zip(self.path[1:], self.path, strict=False))


def call_path(work: Callable[[], Any], is_counted: Callable[[FrameType], bool] = lambda _: True) -> CallPath:
    """Call a function, and return the calls of Python functions of her_wrappers that this causes.

    Args:
        work: Function to call.
        is_counted: Function that gets the frame of each call; if it returns False, the call is left out.
    """
    calls = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE) and is_counted(frame):
            calls.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return CallPath(tuple(calls))


def env_path(env: gym.Env[Any, Any], work: Callable[[], Any]) -> CallPath:
    """Call ``work``, and return the first call of each function of her_wrappers that gets the environment.

    Args:
        env: The environment, with any wrappers.
        work: Function to call.
    """
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    ids = set(map(id, layers))

    def holds_env(value: object) -> bool:
        owned = getattr(value, "__dict__", {}) if not isinstance(value, type | gym.Env) else {}
        return id(value) in ids or any(id(part) in ids for part in list(owned.values()))

    def is_counted(frame: FrameType) -> bool:
        return "/rules" not in frame.f_code.co_filename and any(map(holds_env, frame.f_locals.values()))

    return CallPath(tuple(dict.fromkeys(call_path(work, is_counted).path)))


def measure() -> dict[str, CallPath]:
    """Return the call path of each operation, by name."""
    env = gym.make("her_envs/BitFlipping-v0")

    def make_buffer(**options: Any) -> HindsightReplayBuffer:
        return HindsightReplayBuffer.for_env(env, buffer_size=10_000, seed=0, **options)

    def add_and_sample(**options: Any) -> tuple[CallPath, CallPath, CallPath]:
        buffer, (first, *others) = make_buffer(**options), record_episodes(env, EPISODES)
        one, many = (
            call_path(lambda: buffer.add_episode(first)),
            call_path(lambda: buffer.add_episodes(others)),
        )
        return one, many, call_path(lambda: buffer.sample(64))

    def record_steps() -> CallPath:
        recorder = EpisodeRecorder(env, make_buffer().add_episode)
        recorder.reset(seed=0)
        action = env.action_space.sample()
        recorder.step(action)
        return call_path(lambda: recorder.step(action))

    add_and_sample()  # imports inside functions and cached results are not counted
    record_steps()
    constructed = call_path(make_buffer)
    one, many, sampled = add_and_sample()
    return {
        "constructor": constructed,
        "first `add_episode`": one,
        "`add_episodes` of 19 episodes": many,
        "first `sample(64)`": sampled,
        "first `sample(64)` with `n_steps=3`": add_and_sample(n_steps=3)[2],
        "`EpisodeRecorder.step`": record_steps(),
        CHECK: check_path(),
    }


def check_path() -> CallPath:
    """Return the calls of the functions in `check_goal_env` that get the environment."""
    env = gym.make("her_envs/PointReach-v0")
    return env_path(env, lambda: check_goal_env(env, max_steps=300))


def main() -> None:
    """Count the calls, and print the counts."""
    paths = measure()
    print(f"{'operation':40}" + "".join(f"{count:>11}" for count in COUNTS))
    for name, path in paths.items():
        print(f"{name:40}" + "".join(f"{getattr(path, count):11}" for count in COUNTS))


if __name__ == "__main__":
    main()
