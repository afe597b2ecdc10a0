"""HER on a device: simulator, replay buffer and learner exchange tensors, which never leave the device.

Many environments of PointPush run at once, as in a GPU simulator. SAC learns from all stored steps, also from
those of episodes that have not ended. To use another simulator, wrap it in `GoalSimulator`, see
docs/simulators.md.

Run it with ``python -m examples.train_on_device``; on one core of a CPU, it takes some minutes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import torch
import tyro
from rich.console import Console

from her_agents import SAC
from her_envs import PointPush, TaskVectorEnv
from her_wrappers import DeviceReplayBuffer
from her_wrappers.simulators import GoalSimulator

WARMUP = 5_000  # steps with random actions
BATCH_SIZE = 128
STEPS_PER_UPDATE = 4
TEST_EPISODES = 100
GAMMA = 0.98

console = Console()


@torch.no_grad()
def success_rate(agent: SAC, seed: int, device: str) -> float:
    """Return the share of test episodes whose last state is at its goal."""
    envs = TaskVectorEnv(PointPush(), TEST_EPISODES, device=device, autoreset_mode="Disabled")
    observation, infos = envs.reset(seed=seed)
    for _ in range(envs.max_steps):
        observation, *_, infos = envs.step(agent.choose(agent.inputs(observation), explore=False))
    return float(infos["is_success"].float().mean())


def main(steps: int = 150_000, num_envs: int = 256, seed: int = 0, device: str = "cpu") -> float:
    """Train, and return the final success rate.

    Args:
        steps: Number of steps of all environments together.
        num_envs: Number of environments.
        seed: Seed of environments, buffer and agent.
        device: Torch device, such as "cuda".
    """
    torch.set_num_threads(1)
    env = GoalSimulator.vector_env(TaskVectorEnv(PointPush(), num_envs, device=device))
    agent = SAC(env.single_observation_space, env.single_action_space, gamma=GAMMA, seed=seed, device=device)
    buffer = DeviceReplayBuffer.for_env(env, steps_per_env=2000, gamma=GAMMA, seed=seed)
    updates = num_envs // STEPS_PER_UPDATE
    observation: Mapping[str, Any] = env.reset(seed=seed)
    start, success = time.perf_counter(), 0.0
    for number in range(1, steps // num_envs + 1):
        with torch.no_grad():
            action = agent.choose(agent.inputs(observation), explore=True)
        if number * num_envs < WARMUP:
            action = 2 * torch.rand_like(action) - 1
        step = env.step(action)
        buffer.add(step)
        observation = step.observation
        if number * num_envs >= WARMUP:
            batch = buffer.sample(updates * BATCH_SIZE)  # one call for all updates
            for i in range(updates):  # relabeled rows come first, so each update takes every n-th row
                agent.update(batch.map(itemgetter(slice(i, None, updates))))
        if number % 60 == 0 or number == steps // num_envs:
            success = success_rate(agent, seed + 1_000_000, device)
            minutes = (time.perf_counter() - start) / 60
            console.print(f"{number * num_envs:9,} steps  success {success:.2f}  {minutes:5.1f} minutes")
    return success


if __name__ == "__main__":
    tyro.cli(main)
