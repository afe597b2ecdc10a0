"""Training: an agent, a replay buffer, environments, and the progress of one training.

An epoch starts with new episodes, seeded by the config's seed and the number of resets so far; episodes that
are open at its end are truncated. The state inside the environments is therefore never saved, and a training
that is resumed at the end of an epoch computes the same as an uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
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
from her_wrappers.environments import make_env, make_vector_env

if TYPE_CHECKING:
    from pathlib import Path

    from her_agents.config import Config
    from her_wrappers import Batch

TEST_SEED = 1_000_000  # seed of evaluations, far from the seeds that users choose

gym.register_envs(her_envs)


@dataclass
class Counts:
    """The progress of a training.

    Attributes:
        epochs: Completed epochs.
        resets: Number of times that all environments were reset.
        env_steps: Steps of all environments together.
        updates: Updates of the agent.
        seconds: Wall-clock time.
    """

    epochs: int = 0
    resets: int = 0
    env_steps: int = 0
    updates: int = 0
    seconds: float = 0.0


class Training:
    """A training, run epoch by epoch.

    Args:
        config: All options.
        buffer_file: File of the replay buffer to continue with, when resuming.

    Attributes:
        config: All options.
        agent: The agent that is trained.
        buffer: The replay buffer.
        counts: The progress.
        history: A row for each epoch.

    Raises:
        TypeError: The algorithm does not support the spaces of the environment.
        ValueError: The environment cannot be made, is not a goal environment, or has no success flag; or the
            file does not hold its buffer.
    """

    def __init__(self, config: Config, buffer_file: Path | None = None) -> None:
        self.config = config
        envs = make_vector_env(config.env, config.num_envs, **config.env_kwargs)
        self._spaces = envs.single_observation_space, envs.single_action_space
        self.buffer = _make_buffer(config, envs, buffer_file)
        self.agent = make_agent(config, *self._spaces)
        self._test_env = make_env(config.env, disable_env_checker=True, **config.env_kwargs)
        flag = _find_success_key(self._test_env)
        self._meter = Meter(flag, zero_is_success=config.clip_targets)
        keys = sorted({flag, *config.info_keys})
        self._info_keys = keys
        self._envs = VectorEpisodeRecorder(envs, self.buffer, self._meter, info_keys=keys)
        self._next_step_mode = declared_mode(envs) is AutoresetMode.NEXT_STEP
        self._ended = np.zeros(config.num_envs, bool)
        self._observations: Any = None
        self.counts = Counts()
        self.history: list[Row] = []
        self._started = time.perf_counter()

    @property
    def success_rate(self) -> float:
        """Success rate of the latest evaluation; 0 before the first."""
        return self.history[-1]["success_rate"] if self.history else 0.0

    def begin_episodes(self) -> None:
        """Reset all environments; the buffer receives open episodes as truncated ones."""
        self.counts.resets += 1
        seed = np.random.SeedSequence((self.config.seed, self.counts.resets)).generate_state(1)[0] >> 1
        self._observations, _ = self._envs.reset(seed=int(seed))
        self._ended[:] = False

    def run_epoch(self, is_interrupted: Callable[[], bool], on_step: Callable[[Training], None]) -> bool:
        """Collect and learn for one epoch, then evaluate.

        Args:
            is_interrupted: Called before each step; the epoch ends without an evaluation if it returns True.
            on_step: Called after each step of the environments, and after the evaluation.

        Returns:
            Whether the epoch was completed.

        Raises:
            ValueError: Targets are clipped, and a reward is outside [-1, 0].
        """
        counts, config = self.counts, self.config
        end = min(config.steps, (counts.epochs + 1) * config.steps_per_epoch)
        while counts.env_steps < end and not is_interrupted():
            self._step()
            self._learn()
            counts.seconds = time.perf_counter() - self._started
            on_step(self)
        completed = counts.env_steps >= end
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

    def _learn(self) -> None:
        """Make the updates that are due."""
        config, counts = self.config, self.counts
        due = int(max(0, counts.env_steps - config.learning_starts) * config.updates_per_step)
        if not self.buffer.can_sample:
            return
        while counts.updates < due:
            batch = self.buffer.sample(config.batch_size)
            if config.clip_targets:
                _require_clippable(batch, config.n_steps)
            self._meter.add_batch(batch)
            self._meter.add(self.agent.update(batch))
            if config.prioritized:
                self.buffer.update_priorities(batch.index, self.agent.td_errors)
            counts.updates += 1

    def _evaluate(self) -> None:
        """Add a row to the history."""
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
        """Return the content of a checkpoint; the buffer is saved separately."""
        return {
            "config": self.config.as_dict(),
            "spaces": describe_spaces(*self._spaces),
            "counts": asdict(self.counts),
            "history": self.history,
            "agent": self.agent.state_dict(),
        }

    def load_state_dict(self, path: Path, state: Mapping[str, Any]) -> None:
        """Restore the content of a checkpoint; `begin_episodes` must follow.

        Args:
            path: File of the checkpoint, for the message.
            state: Content of the checkpoint.

        Raises:
            ValueError: The environment's spaces are not those of the checkpoint.
        """
        require_spaces(path, state, *self._spaces)
        self.agent.load_state_dict(state["agent"])
        self.counts = Counts(**state["counts"])
        self.counts.resets -= 1  # the episodes of the latest reset start once more
        self.history = list(state["history"])
        self._started = time.perf_counter() - self.counts.seconds

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()
        self._test_env.close()


def _make_buffer(config: Config, envs: Any, saved: Path | None) -> HindsightReplayBuffer:
    """Make the replay buffer of a config, or load the saved one."""
    buffer_size = min(config.buffer_size, config.steps)
    if saved is not None:
        return HindsightReplayBuffer.load(saved, envs, buffer_size=buffer_size)
    return HindsightReplayBuffer.for_env(
        envs,
        buffer_size=buffer_size,
        n_sampled_goal=config.k if config.her else 0,
        goal_selection_strategy=config.strategy,
        termination=config.termination,
        n_steps=config.n_steps,
        gamma=config.gamma,
        prioritized=Priority() if config.prioritized else None,
        info_keys=config.info_keys,
        seed=config.seed,
    )


def _find_success_key(env: Any) -> str:
    """Return the name of the success flag, from the info of one step."""
    env.reset(seed=TEST_SEED)
    env.action_space.seed(TEST_SEED)
    return success_key(env.step(env.action_space.sample())[-1])


def _require_clippable(batch: Batch, n_steps: int) -> None:
    """Raise unless all rewards are sums of at most ``n_steps`` rewards in [-1, 0].

    Raises:
        ValueError: A reward is out of that range.
    """
    least, largest = batch.rewards.min(), batch.rewards.max()
    if least < -n_steps or largest > 0:
        raise ValueError(
            f"clipped targets assume rewards from {-n_steps} to 0, got {least:g} to {largest:g}; "
            "pass --no-clip-targets, or clip_targets=False in a config"
        )
