"""Training: an agent, a buffer, environments, and how far they have come."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from examples.evaluate import evaluate, success_key
from examples.training.checkpoints import require_spaces, spaces_of
from examples.training.logs import Meter, Row
from examples.training.parts import make_agent, make_buffer, make_env, make_vector_env
from her_wrappers import VectorEpisodeRecorder
from her_wrappers.autoreset import declared_mode

if TYPE_CHECKING:
    from pathlib import Path

    from examples.training.config import Config
    from her_wrappers import Batch

TEST_SEED = 1_000_000  # of evaluations, far from the seeds that users choose


@dataclass
class Counts:
    """How far a training has come.

    Attributes:
        epochs: Finished.
        begun: Times that all environments were reset.
        env_steps: Of all environments together.
        updates: Of the agent.
        seconds: Spent.
    """

    epochs: int = 0
    begun: int = 0
    env_steps: int = 0
    updates: int = 0
    seconds: float = 0.0


class Training:
    """A training, one epoch after the other.

    Args:
        config: All that it depends on.
        buffer_file: Where its replay buffer was saved, if it goes on with one.

    Attributes:
        config: As given.
        agent: What learns.
        buffer: What it learns from.
        counts: How far it has come.
        history: A row for each epoch.

    Raises:
        TypeError: Algorithm and environment do not fit each other.
        ValueError: The environment cannot be made, is no goal environment, or does not tell success; or the
            file is none of its.
    """

    def __init__(self, config: Config, buffer_file: Path | None = None) -> None:
        self.config = config
        envs = make_vector_env(config)
        self._spaces = envs.single_observation_space, envs.single_action_space
        self.buffer = make_buffer(config, envs, buffer_file)
        self.agent = make_agent(config, *self._spaces)
        self._test_env = make_env(config)
        told = _success_key(self._test_env)
        self._meter = Meter(told, zero_is_success=config.clip_targets)
        keys = sorted({told, *config.info_keys})
        self._envs = VectorEpisodeRecorder(envs, self.buffer, self._meter, info_keys=keys)
        self._waits = declared_mode(envs) is AutoresetMode.NEXT_STEP
        self._ended = np.zeros(config.num_envs, bool)
        self._observations: Any = None
        self.counts = Counts()
        self.history: list[Row] = []
        self._started = time.perf_counter()

    @property
    def success_rate(self) -> float:
        """Of the latest evaluation; 0 before the first."""
        return self.history[-1]["success_rate"] if self.history else 0.0

    def begin_episodes(self) -> None:
        """Begin fresh episodes everywhere; open ones go to the buffer, truncated."""
        self.counts.begun += 1
        seed = np.random.SeedSequence((self.config.seed, self.counts.begun)).generate_state(1)[0] >> 1
        self._observations, _ = self._envs.reset(seed=int(seed))
        self._ended[:] = False

    def run_epoch(self, stops: Callable[[], bool], show: Callable[[Training], None]) -> None:
        """Collect and learn for an epoch, then evaluate, unless asked to stop before.

        Raises:
            ValueError: Targets are clipped, and rewards are not from -1 to 0.
        """
        counts, config = self.counts, self.config
        end = min(config.steps, (counts.epochs + 1) * config.steps_per_epoch)
        while counts.env_steps < end and not stops():
            self._step()
            self._learn()
            counts.seconds = time.perf_counter() - self._started
            show(self)
        finished = counts.env_steps >= end
        self.begin_episodes()
        if finished:
            counts.epochs += 1
            self._evaluate()
            show(self)

    def _step(self) -> None:
        """Take one step in every environment."""
        actions = self.agent.act(self._observations, explore=True)
        self._observations, _, terminated, truncated, _ = self._envs.step(actions)
        self.counts.env_steps += self.config.num_envs - (int(self._ended.sum()) if self._waits else 0)
        self._ended = terminated | truncated

    def _learn(self) -> None:
        """Make up for the updates that are due."""
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
        """Return a checkpoint's content; the buffer is saved on its own."""
        return {
            "config": self.config.as_dict(),
            "spaces": spaces_of(*self._spaces),
            "counts": asdict(self.counts),
            "history": self.history,
            "agent": self.agent.state_dict(),
        }

    def load_state_dict(self, path: Path, state: Mapping[str, Any]) -> None:
        """Take over a checkpoint's content, to go on with `begin_episodes`.

        Args:
            path: Where it is from, for the message.
            state: The content.

        Raises:
            ValueError: The environment's spaces are not those of the checkpoint.
        """
        require_spaces(path, state, *self._spaces)
        self.agent.load_state_dict(state["agent"])
        self.counts = Counts(**state["counts"])
        self.counts.begun -= 1  # the episodes that had just begun begin once more
        self.history = list(state["history"])
        self._started = time.perf_counter() - self.counts.seconds

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()
        self._test_env.close()


def _success_key(env: Any) -> str:
    """Look at a step for the entry that tells success.

    Raises:
        ValueError: There is none.
    """
    env.reset(seed=TEST_SEED)
    env.action_space.seed(TEST_SEED)
    return success_key(env.step(env.action_space.sample())[-1])


def _require_clippable(batch: Batch, n_steps: int) -> None:
    """Refuse rewards that clipped targets are not for.

    Raises:
        ValueError: One is not from -1 to 0, or not a sum of ``n_steps`` of those.
    """
    least, largest = batch.rewards.min(), batch.rewards.max()
    if least < -n_steps or largest > 0:
        raise ValueError(
            f"clipped targets assume rewards from {-n_steps} to 0, got {least:g} to {largest:g}; "
            "pass --no-clip-targets, or clip_targets=False in a config"
        )
