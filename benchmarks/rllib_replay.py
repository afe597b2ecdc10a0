"""The replay buffer for RLlib compared with RLlib's own: time to add a step and to sample a batch.

For example:

    python -m benchmarks.rllib_replay --quick    a short test
    python -m benchmarks.rllib_replay            a minute

Both buffers get episodes of 50 steps with the spaces of FetchPush, in chunks of one step, as env runners
return them with RLlib's default settings, and are as full as the table says. RLlib's `EpisodeReplayBuffer`
gets vectors, as after its connector `FlattenObservations`, and relabels nothing; ours gets dicts, and
relabels 80 %. A batch is `sample(256)`; the learner connectors of DQN make its columns. Times are processor
times of one thread; the table shows medians over rounds in which both buffers take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.connectors.common import AddObservationsFromEpisodesToBatch
from ray.rllib.connectors.learner import AddNextObservationsFromEpisodesToTrainBatch
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer

from benchmarks.array_envs import PushSpaces
from benchmarks.replay_task import ACTION_SPACE, GOAL, HORIZON, OBSERVATION
from her_wrappers.integrations.rllib import HerDQNConfig
from her_wrappers.integrations.rllib_buffer import HerEpisodeReplayBuffer, NetworkInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 256
CALLS = {"add a step": 940, "sample, connect": 50, "add a step, sample, connect": 50}
"""Number of calls of each operation in a round, after one that is not counted."""
CHUNKS = 1_000
"""Chunks made for each round, more than are added."""
OPERATIONS = tuple(CALLS)


def make_chunks(rng: np.random.Generator, steps: int, inputs: NetworkInputs | None) -> list[Any]:
    """Return chunks of one step each; ``inputs`` flattens the observations."""
    chunks = []
    for _ in range(steps // HORIZON):
        goal = rng.normal(size=GOAL)
        episode = SingleAgentEpisode()
        for t in range(HORIZON + 1):
            state = {"observation": rng.normal(size=OBSERVATION), "achieved_goal": rng.normal(size=GOAL)}
            observation: Any = {**state, "desired_goal": goal}
            if inputs is not None:
                observation = inputs(observation, 1)[0]
            if t == 0:
                episode.add_env_reset(observation, {})
                continue
            action = rng.uniform(-1, 1, ACTION_SPACE.shape).astype(np.float32)
            episode.add_env_step(observation, action, -1.0, {}, truncated=t == HORIZON)
            following = None if t == HORIZON else episode.cut(len_lookback_buffer=1)
            chunks.append(episode.to_numpy())
            episode = following
    return chunks


def connectors(config: Any) -> Any:
    """Return the learner connectors of DQN, as its learner completes them."""
    pipeline = config.build_learner_connector(None, None)
    pipeline.insert_after(AddObservationsFromEpisodesToBatch, AddNextObservationsFromEpisodesToTrainBatch())
    return pipeline


@dataclass
class Contender:
    """A buffer with its learner connectors.

    Attributes:
        buffer: The buffer.
        pipeline: The learner connectors.
        inputs: Flattens the observations before they are added, or None.
        chunks: Chunks to add.
    """

    buffer: Any
    pipeline: Any
    inputs: NetworkInputs | None
    chunks: Iterator[Any] = field(default_factory=lambda: iter(()))

    def add(self) -> None:
        """Add a chunk of one step."""
        self.buffer.add([next(self.chunks)])

    def connect(self) -> Any:
        """Sample a batch, and make its columns."""
        episodes = self.buffer.sample(BATCH, n_step=1, gamma=0.98, sample_episodes=True, lookback=0)
        return self.pipeline(rl_module=None, batch={}, episodes=episodes, shared_data={})

    def cycle(self) -> Any:
        """Add a step, sample a batch, and make its columns."""
        self.add()
        return self.connect()

    def measure(self) -> dict[str, float]:
        """Return the processor times of one call in microseconds, by operation."""
        functions = zip(OPERATIONS, (self.add, self.connect, self.cycle), strict=True)
        times = {}
        for name, function in functions:
            function()  # ours prefetches batches after steps were added; the last row includes that time
            times[name] = processor_time(function, CALLS[name])
        return times


def processor_time(function: Callable[[], object], calls: int) -> float:
    """Return the time of one call in microseconds."""
    started = time.process_time()
    for _ in range(calls):
        function()
    return (time.process_time() - started) / calls * 1e6


def measure(size: int, rounds: int) -> list[tuple[dict[str, float], dict[str, float]]]:
    """Return the times of RLlib's buffer and of ours in each round, by operation."""
    env, rng = PushSpaces(), np.random.default_rng(0)
    theirs = Contender(
        EpisodeReplayBuffer(capacity=size), connectors(DQNConfig()), NetworkInputs(env.observation_space)
    )
    ours = Contender(HerEpisodeReplayBuffer(env, capacity=size, seed=0), connectors(HerDQNConfig()), None)
    for contender in (theirs, ours):
        for chunk in make_chunks(rng, size, contender.inputs):
            contender.buffer.add([chunk])
    times = []
    for _ in range(rounds):
        for contender in (theirs, ours):
            contender.chunks = iter(make_chunks(rng, CHUNKS, contender.inputs))
        times.append((theirs.measure(), ours.measure()))
    return times


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare the replay buffer for RLlib with RLlib's own.")
    parser.add_argument("--quick", action="store_true", help="small buffers, one round")
    quick = parser.parse_args().quick
    print(f"ray {ray.__version__}, NumPy {np.__version__}")
    print("| transitions | operation | RLlib [us] | ours [us] | ratio |\n|---|---|---|---|---|")
    for size in (1_000,) if quick else (10_000, 100_000):
        times = measure(size, 1 if quick else 7)
        for operation in OPERATIONS:
            theirs, ours = ([each[i][operation] for each in times] for i in (0, 1))
            ratio = statistics.median(a / b for a, b in zip(theirs, ours, strict=True))
            print(
                f"| {size:,} | {operation} | {statistics.median(theirs):,.0f} | "
                f"{statistics.median(ours):,.0f} | {ratio:.1f} |"
            )


if __name__ == "__main__":
    main()
