"""Training on BitFlipping until it is solved, with this project and with Stable-Baselines3.

A `Trial` measures time and evaluates the policy, in the same way for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

import her_envs
from benchmarks.timing import Stopwatch
from her_agents.dqn import DQN
from her_wrappers import HindsightReplayBuffer, VectorEpisodeRecorder

ENV_ID = "her_envs/BitFlipping-v0"
SOLVED = 0.95
EPISODES, CONFIRMATION_EPISODES = 100, 200
TEST_SEED = 1_000_000  # differs from the seeds of trainings
MAX_STEPS = 300_000  # of a training; the capacity of the buffer

Policy: TypeAlias = Callable[[Any], np.ndarray]

gym.register_envs(her_envs)


@dataclass(frozen=True)
class Settings:
    """Settings of a training.

    Attributes:
        num_envs: Number of environments, stepped together.
        hidden: Units of each hidden layer.
        batch_size: Transitions in an update.
        learning_rate: Learning rate of Adam.
        gamma: Discount per step.
        n_sampled_goal: Relabeled transitions for every original one.
        updates: Updates of the network after each step of the vector environment.
        learning_starts: Steps before the first update.
        agent: Further keyword arguments of the library's DQN.
    """

    num_envs: int = 16
    hidden: tuple[int, ...] = (256,)
    batch_size: int = 128
    learning_rate: float = 1e-3
    gamma: float = 0.98
    n_sampled_goal: int = 4
    updates: int = 4
    learning_starts: int = 1_000
    agent: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The result of a training.

    Attributes:
        steps: Steps of all environments together.
        updates: Updates of the network.
        solved: Whether the task was solved within the budget.
        success: Success rate in the latest evaluation.
        seconds: Processor time in seconds, without evaluations.
        wall: Wall-clock time in seconds, without evaluations.
        sampling: Processor seconds of sampling batches.
        updating: Processor seconds of updates, without sampling.
    """

    steps: int
    updates: int
    solved: bool
    success: float
    seconds: float
    wall: float
    sampling: float
    updating: float

    @property
    def collecting(self) -> float:
        """Processor seconds of environments, actions, and adding to the buffer."""
        return self.seconds - self.sampling - self.updating


class Trial:
    """Measures the time of one training, and evaluates its policy until the task is solved.

    Args:
        bits: Number of bits.
        every: Steps between evaluations.
        budget: Processor seconds after which the training ends.

    Attributes:
        sample: Stopwatch of the buffer's ``sample``.
        learn: Stopwatch of updates, including ``sample``.
    """

    def __init__(self, bits: int, every: int, budget: float) -> None:
        self._bits, self._every, self._budget = bits, every, budget
        self._next_evaluation = every
        self._steps, self._success = 0, 0.0
        self._solved = False
        self._seconds = np.zeros(2)
        self.sample, self.learn = Stopwatch(), Stopwatch()
        self._since = _now()

    def is_over(self, steps: int, act: Policy) -> bool:
        """Return whether the training is over; the policy is evaluated every ``every`` steps."""
        if steps < self._next_evaluation:
            return False
        self._seconds += _now() - self._since
        self._steps, self._next_evaluation = steps, self._next_evaluation + self._every
        self._evaluate(act)
        self._since = _now()
        return self._solved or self._seconds[0] >= self._budget or steps >= MAX_STEPS

    def _evaluate(self, act: Policy) -> None:
        for number, episodes in enumerate((EPISODES, CONFIRMATION_EPISODES)):
            self._success = success_rate(act, self._bits, episodes, TEST_SEED + number)
            if self._success < SOLVED:
                return
        self._solved = True

    def result(self) -> Result:
        """Return the result after the end of the training."""
        return Result(
            self._steps,
            self.sample.calls,
            self._solved,
            self._success,
            *self._seconds.tolist(),
            sampling=self.sample.seconds,
            updating=self.learn.seconds - self.sample.seconds,
        )


def _now() -> np.ndarray:
    return np.array([time.thread_time(), time.perf_counter()])


def success_rate(act: Policy, bits: int, episodes: int, seed: int) -> float:
    """Return the success rate in the first episodes of a vector environment of ``episodes`` environments."""
    envs = gym.make_vec(ENV_ID, episodes, n_bits=bits)
    observations, _ = envs.reset(seed=seed)
    reached = np.zeros(episodes, bool)
    for _ in range(bits):  # then all first episodes have ended
        observations, _, terminated, _, _ = envs.step(act(observations))
        reached |= terminated
    return float(reached.mean())


def train_ours(settings: Settings, bits: int, trial: Callable[[], Trial], seed: int) -> Result:
    """Train with this project, in a loop as a user would write it."""
    envs = gym.make_vec(ENV_ID, settings.num_envs, n_bits=bits, autoreset_mode=AutoresetMode.SAME_STEP)
    buffer = HindsightReplayBuffer.for_env(
        envs,
        buffer_size=MAX_STEPS,
        n_sampled_goal=settings.n_sampled_goal,
        gamma=settings.gamma,
        seed=seed,
    )
    agent = DQN(
        envs.single_observation_space,
        envs.single_action_space,
        hidden=settings.hidden,
        learning_rate=settings.learning_rate,
        gamma=settings.gamma,
        seed=seed,
        **settings.agent,
    )
    recorder = VectorEpisodeRecorder(envs, buffer)
    running = trial()
    sample = running.sample.wrap(buffer.sample)
    learn = running.learn.wrap(lambda: agent.update(sample(settings.batch_size)))
    observations, _ = recorder.reset(seed=seed)
    steps = 0
    while not running.is_over(steps, agent.act):
        observations, *_ = recorder.step(agent.act(observations, explore=True))
        steps += settings.num_envs
        if steps > settings.learning_starts and buffer.can_sample:
            for _ in range(settings.updates):
                learn()
    return running.result()


def train_sb3(settings: Settings, bits: int, trial: Callable[[], Trial], seed: int) -> Result:
    """Train with Stable-Baselines3."""
    model = sb3.DQN(
        "MultiInputPolicy",
        make_vec_env(ENV_ID, settings.num_envs, seed=seed, env_kwargs={"n_bits": bits}),
        replay_buffer_class=sb3.HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": settings.n_sampled_goal},
        buffer_size=MAX_STEPS,
        learning_starts=settings.learning_starts,
        learning_rate=settings.learning_rate,
        gamma=settings.gamma,
        batch_size=settings.batch_size,
        train_freq=1,
        gradient_steps=settings.updates,
        policy_kwargs={"net_arch": list(settings.hidden)},
        device="cpu",
        seed=seed,
        **settings.agent,
    )
    running = trial()
    model.replay_buffer.sample = running.sample.wrap(model.replay_buffer.sample)
    model.train = running.learn.wrap(model.train)
    model.learn(MAX_STEPS, callback=_StopCallback(running), log_interval=10**9)
    return running.result()


class _StopCallback(BaseCallback):
    """Evaluates the policy, and stops the training."""

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self._trial = trial

    def _on_step(self) -> bool:
        return not self._trial.is_over(self.num_timesteps, self._act)

    def _act(self, observations: Any) -> np.ndarray:
        return self.model.predict(observations, deterministic=True)[0]
