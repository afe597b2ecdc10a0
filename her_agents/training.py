"""Training: the agent, replay buffer, environments and progress of one run.

Every epoch starts with new episodes, seeded by the config's seed and the number of resets so far. Open
episodes are truncated at the end of an epoch. So checkpoints need no state of the environments, and a resumed
run computes the same results as an uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

import her_envs
from her_agents.algorithms import make_agent
from her_agents.checkpoints import describe_spaces, require_spaces
from her_agents.evaluation import evaluate, success_key
from her_agents.logs import Meter, Row
from her_wrappers import HindsightReplayBuffer, Priority, VectorEpisodeRecorder
from her_wrappers.autoreset import declared_mode
from her_wrappers.environments import make_env, make_vector_env, present_folder
from her_wrappers.files.arrays import as_corrupt
from her_wrappers.goal_interface import goal_spaces

if TYPE_CHECKING:
    from pathlib import Path

    from her_agents.config import Config

TEST_SEED = 1_000_000  # seed of evaluations; differs from usual seeds of runs

gym.register_envs(her_envs)


@dataclass
class Counts:
    """The progress of a run.

    Attributes:
        epochs: Number of completed epochs.
        resets: Number of resets of all environments.
        env_steps: Steps of all environments together.
        updates: Updates of the agent.
        seconds: Wall-clock time [s].
    """

    epochs: int = 0
    resets: int = 0
    env_steps: int = 0
    updates: int = 0
    seconds: float = 0.0

    @property
    def steps(self) -> int:
        """Progress towards ``Config.steps``: steps of all environments, or updates of an offline run."""
        return self.env_steps or self.updates


class Training:
    """A run with episodes from environments of this process; subclasses have other sources of episodes.

    Args:
        config: The options.
        buffer_file: File of the saved replay buffer of a resumed run; None for a new run.
        backend: Backend of the `Collector`, if there are workers.
        address: Address of a Ray cluster for the `Collector`, or None.

    Attributes:
        config: The options.
        agent: The agent.
        buffer: The replay buffer.
        counts: The progress.
        history: A row for each epoch.

    Raises:
        BrokenModuleError: The environment or its module raised an error.
        ConnectionError: No Ray cluster answers at ``address``.
        ImportError: Ray or Minari is needed, and is not installed.
        TypeError: The algorithm does not support the spaces of the environment.
        ValueError: The environment cannot be made, is not a goal environment, has no success flag, or has
            rewards outside [-1, 0] with ``clip_targets``; or the buffer file, the backend, the address or the
            recorded episodes cannot be used.
    """

    _envs: Any = None  # those of this process that episodes are recorded from; None in a subclass

    def __init__(
        self,
        config: Config,
        buffer_file: Path | None = None,
        *,
        backend: str = "process",
        address: str | None = None,
    ) -> None:
        self.config = config
        self._backend, self._address = backend, address
        self._test_env = make_env(config.env, disable_env_checker=True, **config.env_kwargs)
        self._spaces = goal_spaces(self._test_env)
        self.agent = make_agent(config, *self._spaces)
        reward, flag = take_random_step(self._test_env)
        if config.clip_targets:
            require_clippable(reward)
        self._meter = Meter(flag, zero_is_success=config.clip_targets)
        self._info_keys = sorted({flag, *config.info_keys})
        self.counts = Counts()
        self.history: list[Row] = []
        self._started = time.perf_counter()
        self._open(buffer_file)

    def _open(self, buffer_file: Path | None) -> None:
        """Make the source of episodes, and the replay buffer."""
        config = self.config
        envs = make_vector_env(config.env, config.num_envs, **config.env_kwargs)
        self.buffer = make_buffer(config, envs, buffer_file)
        self._envs = VectorEpisodeRecorder(envs, self.buffer, self._meter, info_keys=self._info_keys)
        self._next_step_mode = declared_mode(envs) is AutoresetMode.NEXT_STEP
        self._ended = np.zeros(config.num_envs, bool)
        self._observations: Any = None

    @property
    def success_rate(self) -> float:
        """Success rate of the latest evaluation; 0 before the first one."""
        return self.history[-1]["success_rate"] if self.history else 0.0

    def begin_episodes(self) -> None:
        """Reset all environments, if there are any; open episodes are added to the buffer as truncated."""
        self.counts.resets += 1
        if self._envs is not None:
            seed = np.random.SeedSequence((self.config.seed, self.counts.resets)).generate_state(1)[0] >> 1
            self._observations, _ = self._envs.reset(seed=int(seed))
            self._ended[:] = False

    def run_epoch(self, is_interrupted: Callable[[], bool], on_step: Callable[[Training], None]) -> bool:
        """Collect and update for one epoch, then reset the environments and evaluate.

        The reset adds open episodes to the buffer as truncated.

        Args:
            is_interrupted: Called before each step; if it returns True, the epoch ends with the reset,
                without an evaluation.
            on_step: Called with this run after each step, and after the evaluation.

        Returns:
            Whether the epoch was completed.

        Raises:
            ValueError: ``clip_targets`` is True, and a reward lies outside [-1, 0].
        """
        counts, config = self.counts, self.config
        end = min(config.steps, (counts.epochs + 1) * config.steps_per_epoch)
        while counts.steps < end and not is_interrupted():
            self._step()
            self._update()
            counts.seconds = time.perf_counter() - self._started
            on_step(self)
        completed = counts.steps >= end
        self.begin_episodes()
        if completed:
            counts.epochs += 1
            self._evaluate()
            on_step(self)
        return completed

    def _step(self) -> None:
        """Take one step in every environment."""
        actions = self.agent.act(self._observations, explore=True)
        self._observations, _, terminated, truncated, _ = self._envs.step(actions)
        resetting = int(self._ended.sum()) if self._next_step_mode else 0
        self.counts.env_steps += self.config.num_envs - resetting
        self._ended = terminated | truncated

    def _update(self) -> None:
        """Update the agent until no update is due."""
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
            if config.clip_targets:
                require_clippable(batch.rewards, config.n_steps)
            self._meter.add_batch(batch)
            self._meter.add(self.agent.update(batch))
            if config.prioritized:
                self.buffer.update_priorities(batch.index, self.agent.td_errors)
            counts.updates += 1

    def _evaluate(self) -> None:
        """Evaluate the agent, and add a row to the history."""
        result = evaluate(self._test_env, self.agent.act, self.config.evaluation_episodes, TEST_SEED)
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
        """Restore the content of a checkpoint; call `begin_episodes` afterwards.

        Args:
            path: Path of the checkpoint, for the message.
            state: Content of the checkpoint.

        Raises:
            CorruptFileError: The state is incomplete, or of another agent.
            ValueError: The spaces of the environment differ from those of the checkpoint.
        """
        require_spaces(path, state, *self._spaces)
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
        self._test_env.close()


def make_buffer(config: Config, env: Any, saved: Path | None) -> HindsightReplayBuffer:
    """Return the replay buffer of a config, or load the saved one."""
    buffer_size = config.buffer_size if config.offline else min(config.buffer_size, config.steps)
    termination = find_termination(config.termination)
    if saved is not None:
        options = {"termination": termination} if callable(termination) else {}  # files contain no functions
        return HindsightReplayBuffer.load(saved, env, buffer_size=buffer_size, **options)
    return HindsightReplayBuffer.for_env(
        env,
        buffer_size=buffer_size,
        **config.goal_options(),
        termination=termination,
        n_steps=config.n_steps,
        gamma=config.gamma,
        prioritized=Priority() if config.prioritized else None,
        info_keys=config.info_keys,
        seed=config.seed,
    )


def find_termination(name: str | None) -> str | Callable[..., Any] | None:
    """Return the argument ``termination`` of the buffer for an option of a config.

    Args:
        name: A mode of the buffer; or ``module:function``, a function that is used like
            ``compute_terminated``; or None. Modules in the current folder are found too.

    Returns:
        The function, or ``name`` if it does not contain a colon.

    Raises:
        ValueError: The module cannot be imported, or does not have the function.
    """
    module, colon, attribute = (name or "").rpartition(":")
    if not colon:
        return name
    try:
        with present_folder():
            function = getattr(import_module(module), attribute)
    except Exception as error:  # anything that the module's own code raises
        raise ValueError(f"cannot load termination {name!r}: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise ValueError(f"termination {name!r} must be a function, got {function!r}")  # noqa: TRY004 - an option's value
    return function  # type: ignore[no-any-return] # any callable


def take_random_step(env: Any) -> tuple[float, str]:
    """Reset the environment, and take one random step; return its reward and the name of the success flag.

    Raises:
        ValueError: The info of the step has no success flag.
    """
    env.reset(seed=TEST_SEED)
    env.action_space.seed(TEST_SEED)
    _, reward, _, _, info = env.step(env.action_space.sample())
    return float(reward), success_key(info)


def require_clippable(rewards: float | np.ndarray, n_steps: int = 1) -> None:
    """Check that clipped targets fit the rewards.

    Args:
        rewards: Sums of at most ``n_steps`` rewards.
        n_steps: Largest number of rewards in a sum.

    Raises:
        ValueError: A value is outside [-n_steps, 0].
    """
    least, largest = np.min(rewards), np.max(rewards)
    if least < -n_steps or largest > 0:
        values = "rewards" if n_steps == 1 else f"sums of {n_steps} rewards"
        raise ValueError(
            f"clip_targets=True needs {values} from {-n_steps} to 0, got {least:g} to {largest:g}; "
            "pass --no-clip-targets, or clip_targets=False in a config"
        )
