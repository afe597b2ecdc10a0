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
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import ray
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.connectors.common import AddObservationsFromEpisodesToBatch
from ray.rllib.connectors.learner import AddNextObservationsFromEpisodesToTrainBatch
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer

from benchmarks.replay_task import ACTION_SPACE, GOAL, HORIZON, OBSERVATION, observation_space
from her_wrappers.integrations.rllib import HerDQNConfig
from her_wrappers.integrations.rllib_buffer import HerEpisodeReplayBuffer, NetworkInputs

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 256


class PushSpaces(gym.Env[Any, Any]):
    """The spaces and the reward of FetchPush, without a simulator."""

    observation_space = observation_space(np.float64)
    action_space = ACTION_SPACE

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> Any:
        """Return 0 within 5 cm and -1 outside, (..., 3), (..., 3) -> (...)."""
        return (np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.05) - 1.0


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


def processor_time(function: Callable[[], object], repetitions: int) -> float:
    """Return the time of one call in microseconds."""
    started = time.process_time()
    for _ in range(repetitions):
        function()
    return (time.process_time() - started) / repetitions * 1e6


def measure(size: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the times in microseconds, by operation and buffer."""
    env, rng = PushSpaces(), np.random.default_rng(0)
    inputs = NetworkInputs(env.observation_space)
    contenders: dict[str, tuple[Any, Any, NetworkInputs | None]] = {
        "RLlib": (EpisodeReplayBuffer(capacity=size), connectors(DQNConfig()), inputs),
        "ours": (HerEpisodeReplayBuffer(env, capacity=size, seed=0), connectors(HerDQNConfig()), None),
    }
    for buffer, _, flat in contenders.values():
        for chunk in make_chunks(rng, size, flat):
            buffer.add([chunk])
    times: dict[str, dict[str, list[float]]] = {
        operation: {name: [] for name in contenders} for operation in ("add", "sample", "sample and connect")
    }
    for _ in range(rounds):
        for name, (buffer, pipeline, flat) in contenders.items():
            chunks = iter(make_chunks(rng, 1000, flat))

            def add(buffer: Any = buffer, chunks: Any = chunks) -> None:
                buffer.add([next(chunks)])

            def sample(buffer: Any = buffer) -> Any:
                return buffer.sample(BATCH, n_step=1, gamma=0.98, sample_episodes=True, lookback=0)

            def connect(sample: Any = sample, pipeline: Any = pipeline) -> Any:
                return pipeline(rl_module=None, batch={}, episodes=sample(), shared_data={})

            connect()  # without the time of the first call
            times["add"][name].append(processor_time(add, 1000))
            times["sample"][name].append(processor_time(sample, 10))
            times["sample and connect"][name].append(processor_time(connect, 10))
    return times


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare the replay buffer for RLlib with RLlib's own.")
    parser.add_argument("--quick", action="store_true", help="small buffers, one round")
    quick = parser.parse_args().quick
    print(f"ray {ray.__version__}, NumPy {np.__version__}")
    print("| transitions | operation | RLlib [us] | ours [us] | ratio |\n|---|---|---|---|---|")
    for size in (1_000,) if quick else (10_000, 100_000):
        for operation, columns in measure(size, 1 if quick else 7).items():
            theirs, ours = (statistics.median(columns[name]) for name in ("RLlib", "ours"))
            ratio = statistics.median(a / b for a, b in zip(columns["RLlib"], columns["ours"], strict=True))
            print(f"| {size:,} | {operation} | {theirs:,.0f} | {ours:,.0f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
