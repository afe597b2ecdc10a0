"""Worker: plays the episodes of a round, which depend only on seed, worker, round and policy state."""

from __future__ import annotations

import inspect
import pickle
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from her_wrappers.data.trees import leaf_arrays
from her_wrappers.goals.autoreset import declared_mode
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.recorder import VectorEpisodeRecorder
from her_wrappers.support.error_texts import describe_user_error
from her_wrappers.support.policies import choose_action


@dataclass(frozen=True)
class Setup:
    """The arguments of a `Collector` that its workers need."""

    make_env: bytes  # pickled function that makes an environment or a vector environment
    policy: bytes  # pickled policy in its initial state
    num_envs: int | None
    seed: int
    info_keys: tuple[str, ...]
    fresh_envs: bool
    deterministic: bool
    sys_path: tuple[str, ...]  # `sys.path` of the learner's program
    registered: tuple[bytes, ...]  # pickled specs of the environments that the learner has registered


@dataclass(frozen=True)
class Task:
    """The work of one worker in one round."""

    worker: int
    round: int
    episodes_per_env: int


@dataclass(frozen=True)
class WorkerResult:
    """The episodes of one worker in one round."""

    task: Task
    episodes: Episodes  # in the order in which they ended
    seconds: float  # wall-clock time of the round in the worker, without the repetition of round 0


@dataclass(frozen=True)
class WorkerFailure:
    """An exception in a worker."""

    task: Task
    reason: str  # type and message of the exception; only the message if ``is_final``
    trace: str  # traceback of the exception
    is_final: bool  # whether another attempt would fail too


class NotRepeatableError(Exception):
    """Raised if the episodes of a round differ when the same round is played again."""


def seeds_of(seed: int, worker: int, round_number: int) -> tuple[int, int]:
    """Return the environment seed and the policy seed of a worker in a round, both in 0..2**31 - 1."""
    numbers = np.random.SeedSequence(seed, spawn_key=(worker, round_number)).generate_state(2)
    return int(numbers[0] >> 1), int(numbers[1] >> 1)


class Worker:
    """Plays rounds. Environments and policy are kept between rounds, unless ``fresh_envs`` is True."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._envs: VectorEpisodeRecorder | None = None
        self._policy: Any = None
        self._ended: list[Episode] = []  # episodes that ended at the latest step

    def run(self, task: Task, state: bytes | None) -> bytes:
        """Play one round with a pickled policy state; return a pickled `WorkerResult` or `WorkerFailure`."""
        try:
            outcome: WorkerResult | WorkerFailure = self._collect(task, state)
        except Exception as error:  # any error of the environment or the policy
            is_final = isinstance(error, NotRepeatableError)
            text = f"{type(error).__name__}: {error}"
            reason = str(error) if is_final else describe_user_error(error) or text
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
            if task.round == 0 and self._setup.deterministic:
                self._require_repeatable(policy, task, state, episodes)
        except BaseException:  # the next attempt begins with new environments
            self.close()
            raise
        return WorkerResult(task, episodes, seconds)

    def _prepare(self, task: Task) -> tuple[VectorEpisodeRecorder, Any]:
        """Return the environments and the policy; create them if they do not exist."""
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
            self._envs = VectorEpisodeRecorder(envs, self._ended.append, info_keys=setup.info_keys)
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
        episodes: list[Episode] = []
        self._ended.clear()  # episodes that the reset has truncated
        while missing.any():
            actions = choose_action(policy, observations, envs.action_space)
            observations, _, terminated, truncated, _ = envs.step(actions)
            ended = np.asarray(terminated) | truncated
            for i, episode in zip(np.flatnonzero(ended), self._ended, strict=True):
                if missing[i]:
                    episodes.append(episode)
                    missing[i] -= 1
            self._ended.clear()
            if is_disabled and ended.any() and missing.any():
                observations, _ = envs.reset(options={"reset_mask": ended})
        return Episodes.of(episodes)

    def _require_repeatable(self, policy: Any, task: Task, state: bytes | None, episodes: Episodes) -> None:
        """Repeat a round with the same policy object; raise NotRepeatableError if the episodes differ."""
        if self._setup.fresh_envs:
            self.close()
        name = _first_difference(episodes, self._play(self._prepare(task)[0], policy, task, state))
        if name is None:
            return
        self.close()
        with_new_policy = _first_difference(episodes, self._play(*self._prepare(task), task, state))
        self.close()
        with_new_envs = _first_difference(episodes, self._play(self._prepare(task)[0], policy, task, state))
        if with_new_policy is not None:
            cause = (
                " with the same seeds in new environments; seed all random generators in reset(seed=...) of "
                "the environment, or in seed(n) of the policy. If the simulator cannot repeat an episode, "
                "pass deterministic=False"
            )
        elif with_new_envs is not None:
            cause = (
                ", because the policy keeps state from the previous round; give the policy a method seed(n) "
                "that resets this state (it is called at the start of each round)"
            )
        else:
            cause = (
                " in the same environments, because reset(seed=...) does not reset the complete state of an "
                "environment; pass fresh_envs=True (`her train --fresh-envs`) to make new environments for "
                "each round"
            )
        raise NotRepeatableError(f"the episodes differ in {name!r} when the round is played again{cause}")


def _make_envs(
    make_env: Callable[..., Any], num_envs: int | None, seed: int | None
) -> VectorEnv[Any, Any, Any]:
    """If ``make_env`` returns a VectorEnv, return it; else return a SyncVectorEnv of ``num_envs`` Envs."""
    seeds = [{} if seed is None else {"seed": seed + i} for i in range(num_envs or 1)]
    first = make_env(**seeds[0])
    if isinstance(first, VectorEnv):
        if num_envs not in {None, first.num_envs}:
            raise ValueError(
                f"num_envs must be {first.num_envs} (as in the vector environment that make_env returns) or "
                f"None, got {num_envs}"
            )
        return first
    if not isinstance(first, gym.Env):
        raise TypeError(f"make_env must return a gymnasium.Env or a VectorEnv, got {type(first).__name__}")
    return SyncVectorEnv([lambda: first, *(partial(make_env, **each) for each in seeds[1:])])


def _first_difference(one: Episodes, other: Episodes) -> str | None:
    """Return the name of the first field that is not bit-identical in both arguments, or None."""
    for name in ("observations", "actions", "rewards", "lengths", "terminated", "truncated", "infos"):
        bits = [
            [(leaf.dtype, leaf.shape, leaf.tobytes()) for leaf in leaf_arrays(getattr(each, name))]
            for each in (one, other)
        ]
        if bits[0] != bits[1]:
            return name
    return None
