"""Training: the agent, replay buffer, environments and progress of one run.

Every epoch begins with a reset of all environments. The seed of this reset depends only on the seed of the
config and the number of resets so far. After the planned steps of an epoch, all open episodes are played to
their ends. Therefore a checkpoint between epochs does not need the state of the environments, and a resumed
run computes the same results as an uninterrupted run.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

import her_envs
from her_agents.algorithms.registry import make_agent, resolve_auto
from her_agents.training.checkpoints import describe_spaces, require_spaces
from her_agents.training.demonstrations import read_demonstrations
from her_agents.training.evaluation import evaluate, success_key
from her_agents.training.logs import Meter, Row
from her_wrappers import HindsightReplayBuffer, Priority, VectorEpisodeRecorder
from her_wrappers.data.arrays import as_corrupt
from her_wrappers.goals.autoreset import declared_mode
from her_wrappers.goals.environments import (
    BrokenModuleError,
    EnvNameError,
    import_callable,
    make_env,
    make_vector_env,
)
from her_wrappers.goals.episode_limit import MAX_EPISODE_STEPS, declared_time_limit, limit_episodes
from her_wrappers.goals.interface import goal_spaces

if TYPE_CHECKING:
    from pathlib import Path

    from her_agents.algorithms.base import Agent
    from her_agents.training.config import Config
    from her_wrappers import Batch, Episode
    from her_wrappers.goals.environments import EnvFactory

TEST_SEED = 1_000_000  # seed of evaluations; differs from usual seeds of runs

gym.register_envs(her_envs)


@dataclass
class Counts:
    """The progress of a run."""

    epochs: int = 0  # completed epochs
    resets: int = 0  # resets of all environments at once
    env_steps: int = 0  # of all environments together
    updates: int = 0  # of the agent
    seconds: float = 0.0  # wall-clock time

    @property
    def steps(self) -> int:
        """Progress towards ``Config.steps``: steps of all environments, or updates of an offline run."""
        return self.env_steps or self.updates


class Training:
    """A run that collects its own episodes. Subclasses get episodes from workers or from recordings instead.

    Args:
        config: The options.
        buffer_file: File of the saved replay buffer of a resumed run; None for a new run.
        env: Function that makes the environment, used instead of ``config.env``. With ``num_envs=1`` and
            ``workers=0``, a `gymnasium.Env` is also accepted, and is used for evaluations too.
        agent: Subclass of `Agent`, used instead of ``config.algo``. With ``workers=0``, an instance of a
            subclass is also accepted.
        backend: Backend of the `Collector` of a run with workers.
        address: Address of a Ray cluster for the `Collector` of a run with workers, or None.

    Attributes:
        config: The options.
        agent: The agent.
        buffer: The replay buffer.
        counts: The progress.
        history: A row for each completed epoch.

    Raises:
        BrokenModuleError: The environment or its module raised an error.
        ConnectionError: No Ray cluster answers at ``address``.
        ImportError: Ray or a package that reads LeRobot datasets is needed but not installed.
        TypeError: The algorithm does not support the spaces of the environment.
        ValueError: The environment cannot be made, is not a goal environment, or has no success flag; its
            compute_reward or compute_terminated reads an info that is not in ``config.info_keys``;
            ``config.clip_targets`` is True, but a reward is outside [-1, 0]; or the buffer file, the backend,
            the address, the device, the recorded episodes or the demonstrations cannot be used.
    """

    _envs: Any = None  # the environments of this process that are recorded; None in a subclass
    _end: float = math.inf  # last step of the epoch; then each environment finishes its episode, and waits
    _waiting = np.ones(0, bool)  # (N,) environments whose last episode of the epoch has ended

    def __init__(
        self,
        config: Config,
        buffer_file: Path | None = None,
        *,
        env: gym.Env[Any, Any] | EnvFactory | None = None,
        agent: Agent | type[Agent] | None = None,
        backend: str = "process",
        address: str | None = None,
    ) -> None:
        own_agent = None if isinstance(agent, type) else agent
        if isinstance(env, gym.Env) and (config.workers or config.num_envs != 1):
            raise ValueError(
                "env= can be an environment only with num_envs=1 and workers=0, got "
                f"num_envs={config.num_envs} and workers={config.workers}; pass a function that makes the "
                "environment"
            )
        if config.workers and own_agent is not None:
            raise ValueError(
                f"with workers={config.workers}, agent= must be a class, got an instance of "
                f"{type(agent).__name__}; pass the class"
            )
        self._own_env = env
        self._agent_class = agent if isinstance(agent, type) else None
        self._backend, self._address = backend, address
        if env is None:
            env = partial(make_env, config.env, disable_env_checker=True, **config.env_kwargs)
        self._evaluation_env = limit_episodes(_made(env), config.max_episode_steps)
        self._spaces = goal_spaces(self._evaluation_env)
        self.config = config = resolve_auto(config, self._spaces[0])[0]
        torch.set_num_threads(config.threads)
        self.agent = own_agent or make_agent(config, *self._spaces, agent=self._agent_class)
        reward, flag = take_random_step(self._evaluation_env, config)
        if config.clip_targets:
            require_clippable(reward)
        self._meter = Meter(flag, zero_is_success=config.clip_targets)
        self._info_keys = tuple(sorted({flag, *config.info_keys}))
        self.counts = Counts()
        self.history: list[Row] = []
        self._started = time.perf_counter()
        self._open(buffer_file)

    def _open(self, buffer_file: Path | None) -> None:
        """Make the source of episodes, and the replay buffer."""
        config = self.config
        envs = self._env_factory()()
        self.buffer = self._make_buffer(envs, buffer_file)
        self._ended_now: list[Episode] = []  # at the latest step, in the order of their environments
        self._envs = VectorEpisodeRecorder(envs, self._ended_now.append, info_keys=self._info_keys)
        self._next_step_mode = declared_mode(envs) is AutoresetMode.NEXT_STEP
        self._ended = self._waiting = np.zeros(config.num_envs, bool)
        self._observations: Any = None

    def _env_factory(self) -> Callable[[], Any]:
        """Return a function that makes the vector environment of the run."""
        config, env = self.config, self._own_env
        if env is None:
            names = config.env, config.num_envs, config.max_episode_steps
            return partial(make_vector_env, *names, **config.env_kwargs)

        def make_one() -> gym.Env[Any, Any]:
            return limit_episodes(_made(env), config.max_episode_steps)

        return lambda: gym.vector.SyncVectorEnv([make_one] * config.num_envs)

    def _make_buffer(self, env: Any, saved: Path | None) -> HindsightReplayBuffer:
        """Return a new replay buffer or, if ``saved`` is not None, the buffer in this file."""
        config = self.config
        buffer_size, info_keys = config.buffer_size, config.info_keys
        if not config.offline:  # the last episodes may end after config.steps
            longest = (
                config.max_episode_steps or declared_time_limit(self._evaluation_env) or MAX_EPISODE_STEPS
            )
            num_envs = config.num_envs * max(1, config.workers)
            buffer_size = min(buffer_size, config.steps + num_envs * longest)
            info_keys = self._info_keys
        termination = find_termination(config.termination)
        # If the functions take tensors, the buffer relabels on the device; else the agent moves each batch.
        place = {"device": config.device, "tensor_functions": True} if config.tensor_functions else {}
        if saved is not None:
            # Files contain no functions.
            options = place | ({"termination": termination} if callable(termination) else {})
            return HindsightReplayBuffer.load(saved, env, buffer_size=buffer_size, **options)
        return HindsightReplayBuffer.for_env(
            env,
            buffer_size=buffer_size,
            **config.goal_options(),
            termination=termination,
            n_steps=config.n_steps,
            gamma=config.gamma,
            prioritized=Priority() if config.prioritized else None,
            info_keys=info_keys,
            seed=config.seed,
            demonstrations=read_demonstrations(config, self._evaluation_env, self._info_keys),
            info_format="columns" if config.tensor_functions else "list",
            **place,
        )

    def begin_episodes(self, *, keep_open: bool = False) -> None:
        """Add 1 to the number of resets, and reset the environments with a seed that depends on this number.

        Runs with workers and offline runs have no environments here, so only the number changes.

        Args:
            keep_open: Whether to add unfinished episodes to the buffer as truncated episodes. If False,
                unfinished episodes are dropped.
        """
        self.counts.resets += 1
        if self._envs is None:
            return
        seed = np.random.SeedSequence((self.config.seed, self.counts.resets)).generate_state(1)[0] >> 1
        self._observations, _ = self._envs.reset(seed=int(seed))
        self._ended = self._waiting = np.zeros(self.config.num_envs, bool)
        if keep_open and self._ended_now:
            self._add(self._ended_now)
        self._ended_now.clear()

    def run_epoch(self, is_interrupted: Callable[[], bool], on_step: Callable[[Training], None]) -> bool:
        """Collect episodes and update the agent for one epoch, evaluate it, then reset the environments.

        Before the evaluation, each environment finishes its current episode.

        Args:
            is_interrupted: Function that is called before each step. If it returns True, the epoch ends
                without an evaluation, and unfinished episodes are added to the buffer as truncated.
            on_step: Function that is called with this run after each step, and after the evaluation.

        Returns:
            Whether the epoch was completed.

        Raises:
            EndlessEpisodeError: An episode did not end.
            ValueError: ``clip_targets`` is True, and a reward lies outside [-1, 0].
        """
        counts, config = self.counts, self.config
        # The next multiple of steps_per_epoch; long episodes can make an epoch pass several multiples.
        self._end = min(config.steps, (counts.steps // config.steps_per_epoch + 1) * config.steps_per_epoch)
        while not (completed := counts.steps >= self._end and bool(self._waiting.all())):
            if is_interrupted():
                break
            self._step()
            self._update()
            counts.seconds = time.perf_counter() - self._started
            on_step(self)
        if completed:  # before the reset, since the evaluations may use the same environment
            counts.epochs += 1
            self._evaluate()
            on_step(self)
        self.begin_episodes(keep_open=not completed)
        return completed

    def _step(self) -> None:
        """Step each environment once; discard the steps of those that wait for the end of the epoch."""
        actions = self.agent.act(self._observations, explore=True)
        self._observations, _, terminated, truncated, _ = self._envs.step(actions)
        resets = self._ended & self._next_step_mode
        self.counts.env_steps += int(np.count_nonzero(~(self._waiting | resets)))
        self._ended = terminated | truncated
        for i, episode in zip(np.flatnonzero(self._ended), self._ended_now, strict=True):
            if not self._waiting[i]:
                self._add([episode])
        self._ended_now.clear()
        if self.counts.steps >= self._end:
            self._waiting = self._waiting | self._ended

    def _add(self, episodes: Sequence[Episode]) -> None:
        self.buffer.add_episodes(episodes)
        self._meter.add_episodes(episodes)

    def _update(self) -> None:
        """Make the updates of the agent that are due after the latest step."""
        config, counts = self.config, self.counts
        due = int(max(0, counts.env_steps - config.learning_starts) * config.updates_per_step)
        if config.offline:
            due = counts.updates + 1
        if not self.buffer.can_sample:
            return
        if config.linear_schedule:
            self.agent.scale_learning_rates(max(0.0, 1 - counts.steps / config.steps))
        while counts.updates < due:
            batch = self.buffer.sample(config.batch_size)
            # Reading rewards from a GPU waits for the GPU, so only every 100th of its batches is checked.
            if config.clip_targets and (self.buffer.device is None or counts.updates % 100 == 0):
                require_clippable(batch.rewards, config.n_steps)
            self._meter.add_batch(batch)
            self._meter.add(self._learn(batch))
            if config.prioritized:
                self.buffer.update_priorities(batch.index, self.agent.td_errors)
            counts.updates += 1

    def _learn(self, batch: Batch) -> dict[str, torch.Tensor]:
        return self.agent.update(batch)

    def _evaluate(self) -> None:
        """Evaluate the agent, and add a row to the history."""
        result = evaluate(self._evaluation_env, self.agent.act, self.config.evaluation_episodes, TEST_SEED)
        counts = self.counts
        counts.seconds = time.perf_counter() - self._started
        row: Row = {
            "epoch": counts.epochs,
            "env_steps": counts.env_steps,
            "updates": counts.updates,
            "seconds": counts.seconds,
        }
        self.history.append(row | asdict(result) | self._meter.read())

    def state_dict(self) -> dict[str, Any]:
        """Return the content of a checkpoint, without the replay buffer."""
        return {
            "config": self.config.as_dict(),
            "spaces": describe_spaces(*self._spaces),
            "counts": asdict(self.counts),
            "history": self.history,
            "agent": self.agent.state_dict(),
        }

    def load_state_dict(self, path: Path, state: Mapping[str, Any]) -> None:
        """Restore the content of a checkpoint. The caller must call `begin_episodes` afterwards.

        Args:
            path: Path of the checkpoint, for error messages.
            state: Content of the checkpoint.

        Raises:
            CorruptFileError: The state is incomplete, or belongs to another agent.
            ValueError: The spaces of the environment differ from the spaces in the checkpoint.
        """
        require_spaces(path, state, self._spaces)
        with as_corrupt(f"{path} is damaged"):
            self.agent.load_state_dict(state["agent"])
            self.counts = Counts(**state["counts"])
        self.counts.resets -= 1  # `begin_episodes` repeats the latest reset
        self.history = list(state["history"])
        self._started = time.perf_counter() - self.counts.seconds

    def close(self) -> None:
        """Close the environments."""
        if self._envs is not None:
            self._envs.close()
        self._evaluation_env.close()


class _KeptOpen(gym.Wrapper[Any, Any, Any, Any]):
    """Ignores ``close``, since the caller owns the environment."""

    def close(self) -> None:
        pass


def _made(env: gym.Env[Any, Any] | EnvFactory) -> gym.Env[Any, Any]:
    """Return ``env`` if it is an environment, else the environment that the function ``env`` makes."""
    return _KeptOpen(env) if isinstance(env, gym.Env) else env()


def find_termination(name: str | None) -> str | Callable[..., Any] | None:
    """Convert the option ``Config.termination`` to the argument ``termination`` of the replay buffer.

    A name with a colon, such as ``module:function``, is replaced by the function; other values are unchanged.

    Raises:
        ValueError: The module cannot be imported, or does not have the function.
    """
    if name is None or ":" not in name:
        return name
    try:
        return import_callable(name, "termination")  # type: ignore[no-any-return] # any callable
    except (BrokenModuleError, EnvNameError) as error:
        raise ValueError(f"cannot load termination {name!r}: {error}") from error


def take_random_step(env: Any, config: Config) -> tuple[float, str]:
    """Reset the environment, take a random step, and return the reward and the name of the success flag.

    Raises:
        ValueError: The info of the step has no success flag; or compute_reward or compute_terminated reads an
            info that is not in ``config.info_keys``.
    """
    observation, _ = env.reset(seed=TEST_SEED)
    env.action_space.seed(TEST_SEED)
    action = env.action_space.sample()
    next_observation, reward, terminated, _, info = env.step(action)
    if config.her:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the buffer of the run issues the same warnings
            # Without the success flag, which belongs to one goal: functions that read it must fail here.
            buffer = HindsightReplayBuffer.for_env(env, buffer_size=1, info_keys=config.info_keys)
            buffer.add(observation, action, reward, next_observation, terminated, True, info)
    return float(reward), success_key(info)


def require_clippable(rewards: Any, n_steps: int = 1) -> None:
    """Raise ValueError if rewards lie outside the range that clipped targets assume.

    Args:
        rewards: An array, a tensor or a float. Each value is the sum of at most ``n_steps`` rewards.
        n_steps: Largest number of rewards in a sum.

    Raises:
        ValueError: A value is outside [-n_steps, 0].
    """
    least, largest = (rewards, rewards) if isinstance(rewards, float) else (rewards.min(), rewards.max())
    if least < -n_steps or largest > 0:
        values = "each reward" if n_steps == 1 else f"each sum of {n_steps} rewards"
        got = f"{least:g}" if least == largest else f"values from {least:g} to {largest:g}"
        raise ValueError(
            f"clip_targets=True needs {values} to be between {-n_steps} and 0, got {got}; pass "
            "clip_targets=False (--no-clip-targets)"
        )
