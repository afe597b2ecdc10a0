"""Worker: plays the episodes of one round as a function of seed, worker, round and policy state alone.

The backends only choose the process that runs this code. Therefore all of them return the same episodes.
"""

from __future__ import annotations

import inspect
import pickle
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from her_wrappers.autoreset import declared_mode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.recorder import VectorEpisodeRecorder
from her_wrappers.trees import leaf_arrays

if TYPE_CHECKING:
    from collections.abc import Callable

    from gymnasium import spaces


@dataclass(frozen=True)
class Setup:
    """The arguments of a `Collector` that its workers need.

    Attributes:
        make_env: Pickled function that makes an environment or a vector environment.
        policy: Pickled policy in its initial state.
        num_envs: Number of environments of a worker, or None; see `Collector`.
        seed: Seed of the collector.
        info_keys: Keys of the infos to record.
        fresh_envs: Whether each round is played in new environments.
        sys_path: ``sys.path`` of the program of the learner.
        registered: Pickled specs of the environments that are registered in the program of the learner,
            except Gymnasium's own environments.
    """

    make_env: bytes
    policy: bytes
    num_envs: int | None
    seed: int
    info_keys: tuple[str, ...]
    fresh_envs: bool
    sys_path: tuple[str, ...]
    registered: tuple[bytes, ...]


@dataclass(frozen=True)
class Task:
    """The work of one worker in one round.

    Attributes:
        worker: Number of the worker.
        round: Number of the round.
        episodes_per_env: Number of episodes that each environment plays.
    """

    worker: int
    round: int
    episodes_per_env: int


@dataclass(frozen=True)
class WorkerResult:
    """The episodes of one worker in one round.

    Attributes:
        task: The task.
        episodes: The episodes, in the order in which they ended.
        seconds: Wall-clock time of the round in the worker [s], without the repetition of round 0.
        spaces: Observation space and action space of one environment.
    """

    task: Task
    episodes: Episodes
    seconds: float
    spaces: tuple[spaces.Space[Any], spaces.Space[Any]]


@dataclass(frozen=True)
class WorkerFailure:
    """An exception in a worker.

    Attributes:
        task: The task.
        reason: Type and message of the exception; only the message if ``is_final`` is True.
        trace: Traceback of the exception, as a text.
        is_final: Whether another attempt would fail too.
    """

    task: Task
    reason: str
    trace: str
    is_final: bool


class NotRepeatableError(Exception):
    """The episodes of a round differ when the same round is played again."""


def seeds_of(seed: int, worker: int, round_number: int) -> tuple[int, int]:
    """Return the seeds of a worker in a round.

    Args:
        seed: Seed of the collector.
        worker: Number of the worker.
        round_number: Number of the round.

    Returns:
        The seed of the environments and the seed of the policy, in 0..2**31 - 1.
    """
    numbers = np.random.SeedSequence(seed, spawn_key=(worker, round_number)).generate_state(2)
    return int(numbers[0] >> 1), int(numbers[1] >> 1)


class Worker:
    """Plays rounds; keeps the environments and the policy between rounds, unless ``fresh_envs`` is True.

    Args:
        setup: The environments and the policy.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._envs: VectorEpisodeRecorder | None = None
        self._policy: Any = None
        self._ended = _LatestEpisodes()

    def run(self, task: Task, state: bytes | None) -> bytes:
        """Play one round.

        Args:
            task: The round to play.
            state: Pickled state of the policy, or None for the initial state.

        Returns:
            A pickled `WorkerResult` or `WorkerFailure`.
        """
        try:
            outcome: WorkerResult | WorkerFailure = self._collect(task, state)
        except Exception as error:  # any error of the environment or the policy
            is_final = isinstance(error, NotRepeatableError)
            reason = str(error) if is_final else f"{type(error).__name__}: {error}"
            outcome = WorkerFailure(task, reason, traceback.format_exc(), is_final)
        return pickle.dumps(outcome, protocol=5)

    def close(self) -> None:
        """Close the environments, and drop the policy."""
        envs, self._envs, self._policy = self._envs, None, None
        if envs is not None:
            envs.close()

    def _collect(self, task: Task, state: bytes | None) -> WorkerResult:
        try:
            started = time.perf_counter()
            if self._setup.fresh_envs:
                self.close()
            envs, policy = self._prepare(task)
            episodes = self._play(envs, policy, task, state)
            seconds = time.perf_counter() - started
            if task.round == 0:
                self._require_repeatable(envs, policy, task, state, episodes)
        except BaseException:  # the next attempt begins with new environments
            self.close()
            raise
        return WorkerResult(
            task, episodes, seconds, (envs.single_observation_space, envs.single_action_space)
        )

    def _prepare(self, task: Task) -> tuple[VectorEpisodeRecorder, Any]:
        """Return the environments and the policy; make them if they do not exist."""
        setup = self._setup
        if self._envs is None or self._policy is None:
            sys.path.extend(folder for folder in setup.sys_path if folder not in sys.path)
            for spec in map(pickle.loads, setup.registered):
                gym.registry.setdefault(spec.id, spec)
            make_env = pickle.loads(setup.make_env)
            seed = None
            if setup.fresh_envs and "seed" in inspect.signature(make_env).parameters:
                seed, _ = seeds_of(setup.seed, task.worker, task.round)
            with warnings.catch_warnings():
                # Importing the module of an environment registers it again, over the spec from above.
                warnings.filterwarnings("ignore", ".*Overriding environment .* already in registry")
                envs = _make_envs(make_env, setup.num_envs, seed)
            self._envs = VectorEpisodeRecorder(envs, self._ended, info_keys=setup.info_keys)
            self._policy = pickle.loads(setup.policy)
        return self._envs, self._policy

    def _play(self, envs: VectorEpisodeRecorder, policy: Any, task: Task, state: bytes | None) -> Episodes:
        """Play the first ``episodes_per_env`` episodes of each environment after a seeded reset."""
        env_seed, policy_seed = seeds_of(self._setup.seed, task.worker, task.round)
        if state is not None:
            policy.load_state_dict(pickle.loads(state))
        if hasattr(policy, "seed"):
            policy.seed(policy_seed)
        is_disabled = declared_mode(envs) is AutoresetMode.DISABLED
        observations, _ = envs.reset(seed=env_seed)
        missing = np.full(envs.num_envs, task.episodes_per_env)
        parts: list[Episodes] = []
        while missing.any():
            observations, _, terminated, truncated, _ = envs.step(policy(observations))
            ended = np.asarray(terminated) | truncated
            if ended.any():
                rows = np.flatnonzero(ended)
                parts += _select(self._ended.episodes, missing[rows] > 0)
                missing[rows] = np.maximum(missing[rows] - 1, 0)
                if is_disabled and missing.any():
                    observations, _ = envs.reset(options={"reset_mask": ended})
        return Episodes.joined(parts)

    def _require_repeatable(
        self,
        envs: VectorEpisodeRecorder,
        policy: Any,
        task: Task,
        state: bytes | None,
        episodes: Episodes,
    ) -> None:
        """Repeat a round with the same policy object; raise NotRepeatableError if the episodes differ."""
        if self._setup.fresh_envs:
            self.close()
            envs, _ = self._prepare(task)
        name = _first_difference(episodes, self._play(envs, policy, task, state))
        if name is None:
            return
        self.close()
        if _first_difference(episodes, self._play(*self._prepare(task), task, state)) is not None:
            raise NotRepeatableError(
                f"{name} of the episodes differ when the round is played again with the same seeds in new "
                "environments; draw all random numbers of an environment from the generator that "
                "reset(seed=...) seeds, and those of the policy from one that its method seed(n) seeds"
            )
        self.close()
        if _first_difference(episodes, self._play(self._prepare(task)[0], policy, task, state)) is not None:
            raise NotRepeatableError(
                f"{name} of the episodes differ when the round is played again: the policy remembers the "
                "round before; give it a method seed(n), which is called at the start of each round and "
                "resets all that the policy remembers"
            )
        raise NotRepeatableError(
            f"{name} of the episodes differ when the round is played again in environments that were used "
            "before: reset(seed=...) does not reset all of their state; pass fresh_envs=True to make new "
            "environments for each round (her train --fresh-envs)"
        )


class _LatestEpisodes:
    """A sink that keeps only the latest episodes, which ended in the same step."""

    episodes: Episodes

    def add_episodes(self, episodes: Episodes) -> None:
        self.episodes = episodes


def _make_envs(
    make_env: Callable[..., Any], num_envs: int | None, seed: int | None
) -> VectorEnv[Any, Any, Any]:
    """Return the vector environment that ``make_env`` returns, or one of ``num_envs`` single environments.

    If ``seed`` is not None, ``make_env`` is called with the seed plus the index of the environment.

    Raises:
        TypeError: ``make_env`` returns neither an environment nor a vector environment.
        ValueError: The vector environment does not have ``num_envs`` environments.
    """
    seeds = [{} if seed is None else {"seed": seed + i} for i in range(num_envs or 1)]
    first = make_env(**seeds[0])
    if isinstance(first, VectorEnv):
        if num_envs not in {None, first.num_envs}:
            raise ValueError(
                f"num_envs must be {first.num_envs}, as in the vector environment that make_env returns, or "
                f"None, got {num_envs}"
            )
        return first
    if not isinstance(first, gym.Env):
        raise TypeError(f"make_env must return a gymnasium.Env or a VectorEnv, got {type(first).__name__}")
    return SyncVectorEnv([lambda: first, *(partial(make_env, **each) for each in seeds[1:])])


def _select(episodes: Episodes, is_wanted: np.ndarray) -> list[Episodes]:
    """Return the episodes for which ``is_wanted``, (n,) bool, is True."""
    if is_wanted.all():
        return [episodes]
    return [episodes[i : i + 1] for i in np.flatnonzero(is_wanted).tolist()]


def _first_difference(one: Episodes, other: Episodes) -> str | None:
    """Return the name of the first field that is not bit-identical in both arguments, or None."""
    for name in ("observations", "actions", "rewards", "lengths", "terminated", "truncated", "infos"):
        leaves = (leaf_arrays(getattr(each, name)) for each in (one, other))
        if [_bits(leaf) for leaf in next(leaves)] != [_bits(leaf) for leaf in next(leaves)]:
            return name
    return None


def _bits(array: np.ndarray) -> tuple[Any, ...]:
    return array.dtype, array.shape, array.tobytes()
