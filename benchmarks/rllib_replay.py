"""Time to add a step and to sample a batch: our replay buffer for RLlib, compared with RLlib's own buffer.

For example:

    python -m benchmarks.rllib_replay --quick    a short test
    python -m benchmarks.rllib_replay            some minutes

Both buffers get episodes of 50 steps with the spaces of FetchPush, in chunks of one step, as RLlib's env
runners return the steps by default. The table states how many steps the buffers contain. RLlib's
`EpisodeReplayBuffer` gets flat vectors, as after its connector `FlattenObservations`, and does not relabel;
our buffer gets dicts, and relabels 80 % of a batch. A batch is sampled by `sample(256)`, and then the learner
connectors of DQN make its columns. Times are processor times of one thread, measured in turns; the table
shows medians over the turns of the times and of the ratios within a turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.connectors.common import AddObservationsFromEpisodesToBatch
from ray.rllib.connectors.learner import AddNextObservationsFromEpisodesToTrainBatch
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer

from benchmarks.array_envs import PushSpaces
from benchmarks.replay_task import ACTION_SPACE, GOAL, HORIZON, OBSERVATION
from benchmarks.result_page import Benchmark, Grid, in_words, listing
from benchmarks.timing import Timing, Workload, measure
from her_wrappers.integrations.rllib import HerDQNConfig
from her_wrappers.integrations.rllib_buffer import HerEpisodeReplayBuffer, NetworkInputs

BENCHMARK = Benchmark("rllib_replay", "How fast is replay in RLlib?", __doc__, ("ray",))
BATCH = 256
OURS, RLLIB = "ours", "RLlib"


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
    """Return the learner connectors of DQN, with the connectors that DQN's learner adds."""
    pipeline = config.build_learner_connector(None, None)
    pipeline.insert_after(AddObservationsFromEpisodesToBatch, AddNextObservationsFromEpisodesToTrainBatch())
    return pipeline


def works(buffer: Any, config: Any, inputs: NetworkInputs | None, size: int) -> dict[str, Workload]:
    """Fill the buffer; return the workloads of adding, of sampling with connectors, and of both together.

    If ``inputs`` is not None, it flattens the observations before they are added.
    """
    rng, pipeline = np.random.default_rng(0), connectors(config)
    for chunk in make_chunks(rng, size, inputs):
        buffer.add([chunk])
    chunks: Iterator[Any] = iter(())

    def prepare(calls: int) -> None:
        nonlocal chunks
        chunks = iter(make_chunks(rng, calls + HORIZON, inputs))

    def work(*, adds: bool, samples: bool) -> Workload:
        def run(calls: int) -> None:
            for _ in range(calls):
                if adds:
                    buffer.add([next(chunks)])
                if samples:
                    episodes = buffer.sample(BATCH, n_step=1, gamma=0.98, sample_episodes=True, lookback=0)
                    pipeline(rl_module=None, batch={}, episodes=episodes, shared_data={})

        return Workload(run, prepare)

    return {
        "add a step": work(adds=True, samples=False),
        "sample, connect": work(adds=False, samples=True),
        "add a step, sample, connect": work(adds=True, samples=True),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="small buffers, one turn")
    timing = Timing(1, 0.1) if options.quick else Timing(7, 2.0)
    env, rows, compared = PushSpaces(), [], list[str]()
    for size in (1_000,) if options.quick else (10_000, 100_000):
        inputs = NetworkInputs(env.observation_space)
        theirs = works(EpisodeReplayBuffer(capacity=size), DQNConfig(), inputs, size)
        ours = works(HerEpisodeReplayBuffer(env, capacity=size, seed=0), HerDQNConfig(), None, size)
        workloads = {(RLLIB, name): work for name, work in theirs.items()}
        workloads |= {(OURS, name): work for name, work in ours.items()}
        costs = measure(workloads, timing, time.process_time)
        for name in ours:
            pair = costs[RLLIB, name], costs[OURS, name]
            cells = [f"{1e6 * np.median(cost):,.0f}" for cost in pair]
            ratio = float(np.median(pair[0] / pair[1]))
            compared.append(f"{in_words(ratio)} to {name} of {size:,}")
            rows.append([f"{size:,}", name, *cells, f"{ratio:.1f}"])
    header = ["stored transitions", "operation", f"{RLLIB} [us]", f"{OURS} [us]", "ratio"]
    answer = f"Compared with RLlib's buffer, which does not relabel, ours is {listing(compared)}."
    BENCHMARK.publish(options, answer, [Grid("Time of a call", header, rows)], {"run": str(timing)})


if __name__ == "__main__":
    main()
