"""The rollout: everything an environment returned, as returned and as copies made at that moment."""

from __future__ import annotations

import re
import sysconfig
import time
import traceback
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium as gym

    Policy = Callable[[Any], Any]

MAX_BYTES = 2**30
"""A rollout of large images ends at this size."""


STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))

LIBRARIES = [
    Path(folder)
    for name in ("her_wrappers", "her_envs", "her_agents", "gymnasium", "numpy", "typer", "click")
    if (spec := find_spec(name)) is not None
    for folder in spec.submodule_search_locations or ()
]
"""Folders whose lines do not show where an environment raised."""

SHORT_EPISODES, SHORT_STEPS = 3, 10
"""The first episodes are cut short, so that the part replayed on replicas contains resets."""


@dataclass(frozen=True, eq=False, slots=True)
class ResetRecord:
    """One call of ``reset``."""

    episode: int
    seed: int | None
    options: dict[str, Any] | None
    observation: Any
    info: Any
    live_observation: Any
    live_info: Any

    @property
    def place(self) -> str:
        """Episode and step, for messages."""
        return f"episode {self.episode}, reset"


@dataclass(frozen=True, eq=False, slots=True)
class StepRecord:
    """One call of ``step``; ``t`` counts from 0 within its episode."""

    episode: int
    t: int
    before: Any  # the observation of the state in which the action was taken
    action: Any
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any
    live_action: Any
    live_observation: Any
    live_info: Any

    @classmethod
    def of(
        cls, place: tuple[int, int], before: Any, action: Any, given: Any, returned: tuple[Any, ...]
    ) -> StepRecord:
        """Return the record of a step.

        Args:
            place: Number of the episode, and of the step in the episode.
            before: Copy of the observation before the step.
            action: Copy of the action.
            given: The action object passed to the environment.
            returned: The five values that the environment returned.
        """
        observation, reward, terminated, truncated, info = returned
        return cls(
            *place, before, action, copy_tree(observation), copy_tree(reward), terminated, truncated,
            copy_tree(info), given, observation, info,
        )  # fmt: skip

    @property
    def place(self) -> str:
        """Episode and step, for messages."""
        return f"episode {self.episode}, step {self.t}"


@dataclass(frozen=True)
class Failure:
    """An exception that left the environment."""

    place: str
    call: str
    error: Exception

    @property
    def hint(self) -> str:
        """A likely cause: the old Gym API, or the line that raised."""
        text = str(self.error)
        if self.call == "reset()" and re.search("unexpected keyword argument '(seed|options)'", text):
            return "seed or options is missing; define reset(self, *, seed=None, options=None)"
        if self.call == "reset()" and "expected 2" in text:
            return "the old Gym API returns the observation alone; return (observation, info)"
        if self.call == "step()" and re.search("expected 5.* got 4", text):
            return "the old Gym API has 4 values; return (observation, reward, terminated, truncated, info)"
        return raised_at(self.error)


@dataclass(eq=False)
class Rollout:
    """Resets and steps, in the order in which they happened."""

    resets: list[ResetRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    failure: Failure | None = None
    cut_off: str = ""
    ended_episodes: int = 0

    @property
    def records(self) -> list[ResetRecord | StepRecord]:
        """All resets, then all steps."""
        return [*self.resets, *self.steps]


class InterruptedRunError(Exception):
    """The run was cut short; the rollout says why."""


class RolloutCollector:
    """Runs an environment with policies and records the rollout.

    Args:
        env: The environment, which is neither closed nor wrapped.
        seed: Seed of the first ``reset``.
        reset_options: Every second episode is reset with the next of these.
        episode_cap: Steps after which an episode without end is cut short.
        max_seconds: Time after which the run is cut off.
        on_step: Called after every step.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        seed: int,
        reset_options: Sequence[dict[str, Any]],
        episode_cap: int,
        max_seconds: float | None,
        on_step: Callable[[], None],
    ) -> None:
        self.rollout = Rollout()
        self._env = env
        self._seed: int | None = seed
        self._reset_options = reset_options
        self._episode_cap = episode_cap
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
        self._on_step = on_step
        self._room = MAX_BYTES

    def run(self, policy: Policy, steps: int) -> None:
        """Take ``steps`` steps in fresh episodes.

        Raises:
            InterruptedRunError: The environment raised, or time or memory ran out.
        """
        while steps > 0:
            cap = self._episode_cap if len(self.rollout.resets) >= SHORT_EPISODES else SHORT_STEPS
            steps -= self._run_episode(policy, min(steps, cap))

    def _run_episode(self, policy: Policy, limit: int) -> int:
        observation = self._reset().observation
        for t in range(limit):
            step = self._step(t, observation, policy(copy_tree(observation)))
            if step.terminated or step.truncated:
                self.rollout.ended_episodes += 1
                return t + 1
            observation = step.observation
        return limit

    def _reset(self, options: dict[str, Any] | None = None) -> ResetRecord:
        episode = len(self.rollout.resets)
        if options is None and self._reset_options and episode % 2:
            options = self._reset_options[episode // 2 % len(self._reset_options)]
        seed, self._seed = self._seed, None
        place = f"episode {episode}"
        observation, info = self._call(
            place, "reset", lambda: as_tuple(self._env.reset(seed=seed, options=copy_tree(options)), 2)
        )
        record = ResetRecord(
            episode, seed, options, copy_tree(observation), copy_tree(info), observation, info
        )
        self.rollout.resets.append(record)
        return record

    def _step(self, t: int, before: Any, action: Any) -> StepRecord:
        episode = len(self.rollout.resets) - 1
        given = copy_tree(action)
        returned = self._call(
            f"episode {episode}, step {t}", "step", lambda: self._as_step(self._env.step(given))
        )
        step = StepRecord.of((episode, t), before, action, given, returned)
        self.rollout.steps.append(step)
        self._on_step()
        self._stop_when_full(step.observation)
        return step

    def _as_step(self, returned: Any) -> tuple[Any, ...]:
        """Return the five values of a step.

        Raises:
            TypeError: The environment returned another number of values, or flags that are not one bool.
        """
        values = as_tuple(returned, 5)
        for name, flag in zip(("terminated", "truncated"), values[2:4], strict=True):
            if np.size(flag) != 1:
                raise TypeError(f"expected {name} to be one bool, got {flag!r}")
        return values

    def _call(self, place: str, name: str, function: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        try:
            return function()
        except Exception as error:
            self.rollout.failure = Failure(place, f"{name}()", error)
            raise InterruptedRunError from error

    def _stop_when_full(self, observation: Any) -> None:
        self._room -= 2 * sum(getattr(part, "nbytes", 0) for part in _values(observation))
        if self._room < 0:
            self.rollout.cut_off = f"the observations filled {MAX_BYTES >> 20} MiB"
        elif self._deadline is not None and time.monotonic() > self._deadline:
            self.rollout.cut_off = "max_seconds had passed"
        else:
            return
        raise InterruptedRunError


def describe(error: BaseException) -> str:
    """Return the last line of the traceback of ``error``."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def raised_at(error: BaseException) -> str:
    """Return file and line of the innermost frame outside of libraries, or an empty text."""
    frames = [
        (Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    own = [(path, line) for path, line in frames if not _is_library(path)]
    if not own:
        return ""
    path, line = own[-1]
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"raised in {shown}, line {line}"


def _is_library(path: Path) -> bool:
    is_standard = path.is_relative_to(STANDARD_LIBRARY) and "site-packages" not in path.parts
    return (
        is_standard
        or str(path).startswith("<frozen ")
        or any(path.is_relative_to(folder) for folder in LIBRARIES)
    )


def as_tuple(returned: Any, length: int) -> tuple[Any, ...]:
    """Return a tuple of ``length`` values.

    Raises:
        TypeError: ``returned`` is not a tuple of this length.
    """
    if not isinstance(returned, tuple) or len(returned) != length:
        count = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise TypeError(f"expected {length} values, got {count}")
    return returned


def _values(observation: Any) -> list[Any]:
    if isinstance(observation, dict):
        return [leaf for part in observation.values() for leaf in _values(part)]
    return [observation]
