"""The processor time of one update of each agent, and of SAC compared with other libraries.

For example:

    python -m benchmarks.agents --quick          a short test
    python -m benchmarks.agents                  about five minutes

All times are processor times; the lowest times are shown.

**SAC compared with other libraries.** In every library, the actor and the two critics have two layers of 256
units, the temperature is constant, and batches have 256 transitions. Stable-Baselines3 and SBX (JAX, compiled
before the measurement) make ten updates in each call of their method `train`. Unlike our agent, they do not
normalize inputs, and their networks also read the achieved goal. The *matrix products* of an update are calls
of ``torch.mm`` with matrices of the same shapes.

**Agents with default networks.** The *gradient step* is an update without its other parts: converting the
batch, normalizing the inputs and updating the target networks. Batches have 128 transitions, of BitFlipping
with 10 bits for DQN, and of PointPush for the other agents.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import her_envs
from benchmarks.replay_task import (
    ACTION_SPACE,
    OBSERVATION_SPACE,
    compute_reward,
    make_episodes,
    record_episodes,
)
from benchmarks.result_page import Benchmark, Grid, Requirement, at_most, compared_with, listing
from benchmarks.timing import Timing, Workload, measure, repeat
from her_agents.algorithms.registry import ALGORITHMS
from her_wrappers import HindsightReplayBuffer

gym.register_envs(her_envs)

# Before JAX is imported
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

PEERS = {"stable-baselines3": "stable_baselines3", "sbx-rl": "sbx"}
BENCHMARK = Benchmark("agents", "How fast is an update of an agent?", __doc__, (*PEERS, "jax"))
BATCH_SIZE = 128
LAYERS, ROWS = (256, 256), 256
PRODUCTS = "matrix products"
PEER_UPDATES = 10  # in each call of a peer's method train
EPISODES = 100
FULL, QUICK = Timing(turns=100, seconds=0.05), Timing(turns=2, seconds=0.02)


def make_works(algo: str) -> dict[tuple[str, str], Workload]:
    """Return two workloads of an algorithm: the update of its agent, and the gradient step alone."""
    env = gym.make("her_envs/BitFlipping-v0" if algo == "dqn" else "her_envs/PointPush-v0")
    buffer = HindsightReplayBuffer.for_env(env, gamma=0.98, seed=0)
    buffer.add_episodes(record_episodes(env, EPISODES))
    batch = buffer.sample(BATCH_SIZE)
    agent, learner = (ALGORITHMS[algo](env.observation_space, env.action_space) for _ in range(2))
    # Parts of the update are replaced from outside, so that the gradient step is not written twice.
    inputs = learner.inputs.of_batch(batch)
    learner.inputs.of_batch = lambda _: inputs  # type: ignore[method-assign]
    learner._target_update_interval = sys.maxsize  # noqa: SLF001
    tensors = batch.to_torch()
    works = {"update": lambda: agent.update(batch), "gradient step": lambda: learner.update(tensors)}
    return {(algo, name): repeat(work) for name, work in works.items()}


class SpacesOnly(gym.Env[Any, Any]):
    """An environment that has only the spaces, which other libraries read; it is never stepped."""

    observation_space = OBSERVATION_SPACE
    action_space = ACTION_SPACE


def matrix_products(policy_delay: int = 1) -> Workload:
    """Return the workload of the matrix products of one update of SAC, on average over ``policy_delay``."""
    inputs = sum(OBSERVATION_SPACE[key].shape[0] for key in ("observation", "desired_goal"))
    width = ACTION_SPACE.shape[0]
    actor = [(ROWS, a, b) for a, b in pairwise([inputs, *LAYERS, 2 * width])]  # (M, K) times (K, N)
    critics = [(ROWS, a, b) for a, b in pairwise([inputs + width, *LAYERS, 1])] * 2

    def gradients(layers: list[tuple[int, int, int]], *, of_weights: bool) -> list[tuple[int, int, int]]:
        return [(a, rows, b) if of_weights else (rows, b, a) for rows, a, b in layers]

    def of_hidden_inputs(layers: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        return gradients([layer for layer in layers if layer[1] in LAYERS], of_weights=False)

    critics_step = actor + 2 * critics + gradients(critics, of_weights=True) + of_hidden_inputs(critics)
    through_critics = critics + gradients(critics, of_weights=False)
    actor_step = actor + through_critics + gradients(actor, of_weights=True) + of_hidden_inputs(actor)
    shapes = policy_delay * critics_step + actor_step
    # Products of one shape share their arrays, which therefore stay in the cache of the processor.
    arrays = {(m, k, n): (torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)) for m, k, n in shapes}

    def run(calls: int) -> None:
        for _ in range(calls):
            for shape in shapes:
                left, right, product = arrays[shape]
                torch.mm(left, right, out=product)

    return Workload(run, units=policy_delay)


def learners() -> dict[str, Workload]:
    """Return a workload of SAC updates for several variants of our agent and for each installed library."""
    buffer = HindsightReplayBuffer(
        OBSERVATION_SPACE, ACTION_SPACE, compute_reward=compute_reward, termination="keep", gamma=0.95, seed=0
    )
    buffer.add_episodes(make_episodes(EPISODES))
    batches = [buffer.sample(ROWS) for _ in range(PEER_UPDATES)]
    works = {}
    for name, options in VARIANTS.items():
        constant = {"hidden": LAYERS, "temperature": 0.05, "learn_temperature": False, "gamma": 0.95}
        agent = ALGORITHMS["sac"](OBSERVATION_SPACE, ACTION_SPACE, **constant, **options)

        def update(calls: int, agent: Any = agent) -> None:
            for i in range(calls):
                agent.update(batches[i % PEER_UPDATES])

        works[name] = Workload(update)
    for name, module in PEERS.items():
        if importlib.util.find_spec(module) is not None:
            works |= {
                f"{name}{note}": peer(module, batches, **options) for note, options in PEER_VARIANTS[name]
            }
    return works | {PRODUCTS + suffix(name): matrix_products(**options) for name, options in VARIANTS.items()}


def suffix(name: str) -> str:
    """Return the options in the name of a learner, such as ", policy_delay=2"."""
    return "".join(name.partition(",")[1:])


VARIANTS: dict[str, dict[str, Any]] = {
    "her-toolkit": {},
    "her-toolkit, policy_delay=2": {"policy_delay": 2},
}
PEER_VARIANTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "stable-baselines3": [("", {})],
    "sbx-rl": [("", {}), (", policy_delay=2", {"policy_delay": 2})],
}


def peer(module: str, batches: Sequence[Any], **options: Any) -> Workload:
    """Return a workload of SAC updates by Stable-Baselines3 or SBX, with our batches."""
    from stable_baselines3.common.logger import configure  # noqa: PLC0415 - optional
    from stable_baselines3.common.type_aliases import DictReplayBufferSamples  # noqa: PLC0415 - optional

    model = importlib.import_module(module).SAC(
        "MultiInputPolicy",
        SpacesOnly(),
        policy_kwargs={"net_arch": list(LAYERS)},
        ent_coef=0.05,
        gamma=0.95,
        buffer_size=100,
        batch_size=ROWS,
        seed=0,
        **options,
    )
    model.set_logger(configure(format_strings=[]))

    def stacked(values: list[Any]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(values))

    keys = list(OBSERVATION_SPACE)
    rows = DictReplayBufferSamples(
        {key: stacked([batch.observations[key] for batch in batches]) for key in keys},
        stacked([batch.actions for batch in batches]),
        {key: stacked([batch.next_observations[key] for batch in batches]) for key in keys},
        stacked([batch.terminations for batch in batches]).float()[:, None],
        stacked([batch.rewards for batch in batches])[:, None],
    )

    def sample(count: int, env: Any = None) -> DictReplayBufferSamples:
        cut = {
            name: {k: v[:count] for k, v in each.items()} if isinstance(each, dict) else each[:count]
            for name, each in rows._asdict().items()
            if each is not None
        }
        return DictReplayBufferSamples(**cut)

    model.replay_buffer.sample = sample

    def run(calls: int) -> None:
        for _ in range(calls):
            model.train(gradient_steps=PEER_UPDATES, batch_size=ROWS)

    return Workload(run, units=PEER_UPDATES)


def compare(timing: Timing) -> tuple[str, list[Requirement], Grid]:
    """Return the answer for the page, the requirements and the table of the learners."""
    lowest = {
        name: float(costs.min()) for name, costs in measure(learners(), timing, time.process_time).items()
    }
    products = {suffix(name): lowest.pop(PRODUCTS + suffix(name)) for name in VARIANTS}
    floors = {name: products[suffix(name)] for name in lowest}
    rows = [
        [name, f"{1e3 * cost:.2f}", f"{1e3 * floors[name]:.2f}", f"{cost / floors[name]:.2f}"]
        for name, cost in lowest.items()
    ]
    own, delayed = (lowest[name] for name in VARIANTS)
    requirements = [
        at_most(
            "sac with policy_delay=2: time of an update / time of its matrix products",
            1.6,
            delayed / floors[list(VARIANTS)[1]],
        ),
        at_most("sac: time with policy_delay=2 / time without", 0.8, delayed / own),
    ]
    for name, cost in lowest.items():
        if name not in VARIANTS:
            same = delayed if "policy_delay=2" in name else own
            peer, _, option = name.partition(", ")
            which = f"sac with {option}" if option else "sac"
            requirements.append(at_most(f"{which}: time of her-toolkit / time of {peer}", 1.0, same / cost))
    compared, compared_delayed = (
        listing([
            compared_with(name.partition(",")[0], cost / base)
            for name, cost in lowest.items()
            if name not in VARIANTS and ("policy_delay=2" in name) == is_delayed
        ])
        for base, is_delayed in ((own, False), (delayed, True))
    )
    answer = f"An update of SAC with a batch of {ROWS} takes {1e3 * own:.1f} milliseconds on one core: "
    answer += f"{compared or 'no other library is installed'}."
    if compared_delayed:
        answer += f" With policy_delay=2, it is {compared_delayed} with the same option."
    title = "SAC compared with other libraries"
    header = ["learner", "update [ms]", "its matrix products [ms]", "update / matrix products"]
    return answer, requirements, Grid(title, header, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="two short turns")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # updates with one batch lead to gradients so small that they take longer
    timing = QUICK if options.quick else FULL
    rows, requirements = [], []
    for algo in ALGORITHMS:
        seconds = measure(make_works(algo), timing, time.thread_time)
        update, step = (1e6 * seconds[algo, name].min() for name in ("update", "gradient step"))
        rows.append([algo, f"{update:.0f}", f"{step:.0f}", f"{update / step:.2f}"])
        requirements.append(
            at_most(f"{algo}: time of an update / time of its gradient step", 1.3, update / step)
        )
    answer, more, table = compare(timing)
    header = ["agent", "update [us]", "gradient step alone [us]", "update / gradient step"]
    BENCHMARK.publish(
        options,
        answer,
        [table, Grid("An update of each agent with its default networks", header, rows)],
        {"run": f"lowest times of {timing}"},
        requirements=requirements + more,
    )


if __name__ == "__main__":
    main()
