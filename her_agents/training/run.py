"""Run: the agent, source of episodes, replay buffer and progress of one run.

`open_run` begins a run: one environment, in which the agent is also evaluated, determines the spaces and the
options that are None; then the agent and the source of episodes are made. `Run.run_epoch` is one epoch.

Every epoch begins with a reset of all environments. The seed of this reset depends only on the seed of the
config and the number of resets so far. After the planned steps of an epoch, all open episodes are played to
their ends. Therefore a checkpoint between epochs does not need the state of the environments, and a resumed
run computes the same results as an uninterrupted run.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch

import her_envs
from her_agents.algorithms.base import require_finite
from her_agents.algorithms.registry import choose_clipping, choose_defaults, choose_device, make_agent
from her_agents.training.checkpoints import describe_spaces, require_spaces
from her_agents.training.evaluation import evaluate, evaluate_simulator, success_key
from her_agents.training.logs import Meter, Row
from her_agents.training.sources import make_single_env, open_source
from her_agents.training.updates import Learner, not_clippable, require_clippable
from her_wrappers import HindsightReplayBuffer, NotFiniteError
from her_wrappers.data.arrays import as_corrupt
from her_wrappers.goals.action_masks import valid_action
from her_wrappers.goals.interface import goal_spaces

if TYPE_CHECKING:
    from pathlib import Path

    from her_agents.algorithms.base import Agent
    from her_agents.training.config import Config
    from her_agents.training.sources import Source
    from her_wrappers.goals.environments import EnvFactory
    from her_wrappers.simulators import GoalSimulator

TEST_SEED = 1_000_000  # seed of evaluations; differs from usual seeds of runs

gym.register_envs(her_envs)


@dataclass
class Counts:
    """The progress of a run."""

    epochs: int = 0  # completed epochs
    resets: int = 1  # number of the next reset of all environments
    env_steps: int = 0  # of all environments together
    updates: int = 0  # of the agent
    seconds: float = 0.0  # wall-clock time
    skipped_episodes: int = 0  # with values that are not finite

    @property
    def steps(self) -> int:
        """Progress towards ``Config.steps``: steps of all environments, or updates of an offline run."""
        return self.env_steps or self.updates


class Run:
    """An agent that learns from the episodes of a source; each epoch ends with an evaluation in ``env``.

    Attributes:
        counts: The progress.
        history: A row for each completed epoch.
    """

    def __init__(self, config: Config, source: Source, agent: Agent, env: gym.Env[Any, Any]) -> None:
        self.config, self.source, self.agent = config, source, agent
        self.counts = Counts()
        self.history: list[Row] = []
        self._evaluation_env = env
        self._meter = Meter()
        self._learner = Learner(agent, source.buffer, config, self._meter)
        self._explorer = agent  # which acts in the source
        if config.real:  # a copy, since a thread updates the agent while the robot moves
            self._explorer = copy.deepcopy(agent)
            set_threads = partial(torch.set_num_threads, config.threads)
            self._thread = ThreadPoolExecutor(1, "updates", set_threads)
            source.await_updates = self._await_updates
        self._learning: Future[None] | None = None  # the updates in the thread
        self._started = time.perf_counter()

    @property
    def buffer(self) -> HindsightReplayBuffer:
        """The replay buffer, which the source fills."""
        return self.source.buffer

    def run_epoch(self, is_interrupted: Callable[[], bool], on_step: Callable[[Run], None]) -> bool:
        """Begin new episodes, collect steps and update the agent for one epoch, then evaluate the agent.

        If ``is_interrupted``, which is called before each step, returns True, the epoch ends without an
        evaluation, unfinished episodes are added to the buffer as truncated, and the result is False.
        While a real robot plays an episode, a thread makes the updates that are due after the previous
        episode; the robot uses the updated policy from the next episode on.
        """
        counts, config = self.counts, self.config
        seed = int(np.random.SeedSequence((config.seed, counts.resets)).generate_state(1)[0] >> 1)
        counts.resets += 1
        self.source.begin(seed)
        if config.real:
            self._explorer.seed(seed)
        # The next multiple of steps_per_epoch; long episodes can make an epoch pass several multiples.
        end = min(config.steps, (counts.steps // config.steps_per_epoch + 1) * config.steps_per_epoch)
        while not (completed := counts.steps >= end and self.source.is_finished):
            if is_interrupted():
                break
            skipped = self.source.skipped
            collected = self.source.collect(self._explorer, end - counts.steps)
            counts.env_steps += collected.steps
            counts.skipped_episodes += self.source.skipped - skipped
            self._meter.add({"collected_success": collected.successes}, collected.episodes)
            if not config.real:
                self._update(counts.env_steps)
            elif collected.episodes:
                self._explorer.load_policy_state(self.agent.policy_state())
                self._learning = self._thread.submit(self._update, counts.env_steps)
            counts.seconds = time.perf_counter() - self._started
            on_step(self)
        self._await_updates()
        if completed:
            counts.epochs += 1
            self._evaluate()
            on_step(self)
        else:
            self.source.add_open()
        return completed

    def add_open(self) -> None:
        """Add the unfinished episodes to the buffer after an error, so that they can be saved."""
        with suppress(Exception):  # perhaps the error itself
            self._await_updates()
        self.source.add_open()

    def _await_updates(self) -> None:
        """Wait for the updates in the thread; if they failed, raise their error."""
        learning, self._learning = self._learning, None
        if learning is not None:
            learning.result()

    def _update(self, env_steps: int) -> None:
        """Make the updates of the agent that are due after ``env_steps`` steps."""
        config, counts = self.config, self.counts
        if not self.buffer.can_sample:
            return
        due = int(max(0, env_steps - config.learning_starts) * config.updates_per_step)
        if config.offline:
            due = counts.updates + 1
        if config.linear_schedule:
            self.agent.scale_learning_rates(max(0.0, 1 - (env_steps or counts.updates) / config.steps))
        while counts.updates + self._learner.updates_per_call <= due:
            self._learner()
            counts.updates += self._learner.updates_per_call

    def _evaluate(self) -> None:
        """Add a row to the history, with an evaluation of the agent if one is due."""
        if self.source.skipped and not self.buffer.can_sample:  # all episodes since the beginning
            raise NotFiniteError(self.source.reason)
        measured = self._meter.read()
        if measured.pop("unclippable", 0.0):
            raise not_clippable("other values", self.config.n_steps)
        for name, value in measured.items():
            require_finite(name, value, self.counts.updates)
        counts, config = self.counts, self.config
        result: Row = {}
        if config.evaluate_every and counts.epochs % config.evaluate_every == 0:
            env = self._evaluation_env
            simulator = getattr(env.unwrapped, "simulator", None)
            options = self.agent.act, config.evaluation_episodes, TEST_SEED
            found = evaluate(env, *options) if simulator is None else evaluate_simulator(simulator, *options)
            result = asdict(found)
        counts.seconds = time.perf_counter() - self._started
        row: Row = {
            "epoch": counts.epochs,
            "env_steps": counts.env_steps,
            "updates": counts.updates,
            "seconds": counts.seconds,
        }
        row |= result | measured | self.source.measured()
        if counts.skipped_episodes:
            row["skipped_episodes"] = counts.skipped_episodes
        share = self.buffer.statistics(1000).trivial_share if self.buffer.can_sample else float("nan")
        if not np.isnan(share):  # goals are relabeled
            row["trivial_share"] = share
        self.history.append(row)

    def state_dict(self) -> dict[str, Any]:
        """Return the content of a checkpoint, without the replay buffer."""
        keys = (*self.config.use_keys, *self.config.critic_keys)
        return {
            "config": self.config.as_dict(),
            "spaces": describe_spaces(*goal_spaces(self._evaluation_env), keys),
            "counts": asdict(self.counts),
            "history": self.history,
            "agent": self.agent.state_dict(),
            **self.source.state_dict(),
        }

    def load_state_dict(self, path: Path, state: Mapping[str, Any]) -> None:
        """Restore the content of a checkpoint; ``path`` is used in error messages only."""
        require_spaces(path, state, goal_spaces(self._evaluation_env))
        with as_corrupt(f"{path} is damaged"):
            self.agent.load_state_dict(state["agent"])
            self.source.load_state_dict(state)
            self.counts = Counts(**state["counts"])
        self.history = list(state["history"])
        self._started = time.perf_counter() - self.counts.seconds

    def close(self) -> None:
        """Close the environments, and stop the workers."""
        if self.config.real:
            self._thread.shutdown()
        self.source.close()
        self._evaluation_env.close()


def open_run(
    config: Config,
    saved: Path | None = None,
    *,
    env: gym.Env[Any, Any] | GoalSimulator | EnvFactory | None = None,
    agent: Agent | type[Agent] | None = None,
    **workers: Any,
) -> Run:
    """Return a `Run` with its agent, source of episodes and replay buffer.

    ``saved`` is the file of the saved replay buffer of a resumed run, or None for a new run. The keyword
    arguments ``workers`` are passed to the `Collector`. Other arguments and errors: see `her_agents.train`.
    """
    if isinstance(env, gym.Env) and (config.workers or config.num_envs != 1):
        raise ValueError(
            "env= can be an environment only with num_envs=1 and workers=0, got "
            f"num_envs={config.num_envs} and workers={config.workers}; pass a function that makes the "
            "environment"
        )
    own_class = agent if isinstance(agent, type) else None
    if config.workers and agent is not own_class:
        raise ValueError(
            f"with workers={config.workers}, agent= must be a class, got an instance of "
            f"{type(agent).__name__}; pass the class"
        )
    first_env = make_single_env(config, env)
    spaces = goal_spaces(first_env)
    config, _ = choose_clipping(choose_defaults(config, first_env), first_env)
    config = replace(config, device=choose_device(config, spaces[0])[0])
    torch.set_num_threads(config.threads)
    if agent is None or isinstance(agent, type):
        agent = make_agent(config, *spaces, agent=own_class)
    flag = "is_success"  # of `RealRobot`
    if not config.real:
        reward, flag = take_random_step(first_env, config)
        if config.clip_targets:
            require_clippable(reward)
    options: dict[str, Any] = {"own_env": env, "own_agent": own_class, "saved": saved}
    source = open_source(config, first_env, flag, **options, **workers)
    return Run(config, source, agent, first_env)


def take_random_step(env: Any, config: Config) -> tuple[float, str]:
    """Take a random step after a reset, and test the goal functions; return reward and success key."""
    observation, info = env.reset(seed=TEST_SEED)
    env.action_space.seed(TEST_SEED)
    rng = np.random.default_rng(TEST_SEED)
    action = valid_action(env.action_space.sample(), env, observation, info, rng)
    next_observation, reward, terminated, _, info = env.step(action)
    if config.her:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the buffer of the run issues the same warnings
            # Without the success flag, which belongs to one goal: functions that read it must fail here.
            buffer = HindsightReplayBuffer.for_env(env, buffer_size=1, info_keys=config.info_keys)
            buffer.add(observation, action, reward, next_observation, terminated, True, info)
    return float(reward), success_key(info)
