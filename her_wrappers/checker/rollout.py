"""Rollouts: the values that an environment returned, as returned and as copies made at that moment."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.exceptions import FailedCall
from her_wrappers.trees import copy_tree, leaf_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium as gym

    Policy = Callable[[Any], Any]

MAX_BYTES = 2**30
"""Size in bytes of observations with their copies; a rollout of larger ones, of images, stops early."""

SHORT_EPISODES, SHORT_STEPS = 3, 10
"""Number and length of the first episodes, which are short so that replays contain resets."""


@dataclass(frozen=True, eq=False, slots=True)
class ResetRecord:
    """One call of ``reset`` with ``seed`` and ``options``; ``episode`` is the index of the new episode.

    Fields that begin with ``live_`` are the returned objects, which may change later; ``observation`` and
    ``info`` are copies made when ``reset`` returned.
    """

    episode: int
    seed: int | None
    options: dict[str, Any] | None
    observation: Any
    info: Any
    live_observation: Any
    live_info: Any

    @property
    def place(self) -> str:
        """Episode, for messages."""
        return f"episode {self.episode}, reset"


@dataclass(frozen=True, eq=False, slots=True)
class StepRecord:
    """One call of ``step``; ``episode`` is the index of the episode, ``t`` that of the step in the episode.

    Fields that begin with ``live_`` are the objects passed and returned, which may change later. ``action``,
    ``observation``, ``reward`` and ``info`` are copies made when ``step`` was called or returned; ``before``
    is a copy of the observation in which the action was taken. ``terminated`` and ``truncated`` are the
    returned flags.
    """

    episode: int
    t: int
    before: Any
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
        cls, place: tuple[int, int], before: Any, action: Any, live_action: Any, returned: tuple[Any, ...]
    ) -> StepRecord:
        """Return the record of a step.

        Args:
            place: Index of the episode, and of the step in the episode.
            before: Copy of the observation before the step.
            action: Copy of the action.
            live_action: Action object passed to ``step``.
            returned: The five values that ``step`` returned.
        """
        observation, reward, terminated, truncated, info = returned
        return cls(
            *place, before, action, copy_tree(observation), copy_tree(reward), terminated, truncated,
            copy_tree(info), live_action, observation, info,
        )  # fmt: skip

    @property
    def place(self) -> str:
        """Episode and step, for messages."""
        return f"episode {self.episode}, step {self.t}"


@dataclass(eq=False)
class Rollout:
    """The resets in order of time, and the steps in order of time.

    Attributes:
        resets: Records of the calls of ``reset``.
        steps: Records of the calls of ``step``.
        failure: The call that raised an exception, in the run or in an experiment after the run, or None.
        cut_off: Reason why the run stopped early, or an empty text.
        ended_episodes: Number of episodes that terminated or were truncated.
    """

    resets: list[ResetRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    failure: FailedCall | None = None
    cut_off: str = ""
    ended_episodes: int = 0

    @property
    def records(self) -> list[ResetRecord | StepRecord]:
        """All resets, followed by all steps."""
        return [*self.resets, *self.steps]


class InterruptedRunError(Exception):
    """The run stopped early: a call raised, a limit was reached, or a batch lacks rows."""


class RolloutCollector:
    """Runs an environment with policies and records the rollout.

    Args:
        env: The environment.
        seed: Seed of the first ``reset``.
        reset_options: Options of ``reset``, used in turn for every second episode.
        episode_cap: Number of steps after which an episode that does not end stops.
        max_seconds: Time in seconds after which the run stops early, or None.
        on_step: Function called after each step.
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
        self._bytes_left = MAX_BYTES

    def run(self, policy: Policy, steps: int) -> None:
        """Take ``steps`` steps in new episodes.

        Args:
            policy: Function ``observation -> action``.
            steps: Number of steps.

        Raises:
            InterruptedRunError: The environment raised, the limit of time or memory was reached, or a batch
                of a vector environment lacks rows.
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
            place, "reset", lambda: require_tuple(self._env.reset(seed=seed, options=copy_tree(options)), 2)
        )
        record = ResetRecord(
            episode, seed, options, copy_tree(observation), copy_tree(info), observation, info
        )
        self.rollout.resets.append(record)
        return record

    def _step(self, t: int, before: Any, action: Any) -> StepRecord:
        episode = len(self.rollout.resets) - 1
        passed = copy_tree(action)
        returned = self._call(
            f"episode {episode}, step {t}", "step", lambda: self._validated_step(self._env.step(passed))
        )
        step = StepRecord.of((episode, t), before, action, passed, returned)
        self.rollout.steps.append(step)
        self._on_step()
        self._stop_at_limits(step.observation)
        return step

    def _validated_step(self, returned: Any) -> tuple[Any, ...]:
        """Return the five values of a step, or raise TypeError if a flag is missing or not a single bool."""
        values = require_tuple(returned, 5)
        for name, flag in zip(("terminated", "truncated"), values[2:4], strict=True):
            if np.size(flag) != 1:
                raise TypeError(f"expected a bool as {name}, got {flag!r}")
        return values

    def _call(self, place: str, name: str, function: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        try:
            return function()
        except Exception as error:
            self.rollout.failure = FailedCall(place, f"{name}()", error)
            raise InterruptedRunError from error

    def _stop_at_limits(self, observation: Any) -> None:
        self._bytes_left -= 2 * sum(getattr(leaf, "nbytes", 0) for leaf in leaf_arrays(observation))
        if self._bytes_left < 0:
            self.rollout.cut_off = f"the observations need more than {MAX_BYTES >> 20} MiB"
        elif self._deadline is not None and time.monotonic() > self._deadline:
            self.rollout.cut_off = "max_seconds has passed"
        else:
            return
        raise InterruptedRunError


def require_tuple(returned: Any, length: int) -> tuple[Any, ...]:
    """Return ``returned`` if it is a tuple of ``length`` values.

    Args:
        returned: Value that ``reset`` or ``step`` returned.
        length: Number of values expected.

    Raises:
        TypeError: ``returned`` is not a tuple of this length.
    """
    if not isinstance(returned, tuple) or len(returned) != length:
        count = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise TypeError(f"expected {length} values, got {count}")
    return returned
