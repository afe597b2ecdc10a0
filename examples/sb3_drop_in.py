"""Stable-Baselines3 with the replay buffer of her-toolkit: one line of the program changes.

SAC is trained on PointReach and DQN on BitFlipping. Run it with ``python -m examples.sb3_drop_in``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch
import tyro
from rich.console import Console
from stable_baselines3 import DQN, SAC

import her_envs
from her_agents import evaluate
from her_wrappers.integrations.sb3 import HerReplayBuffer  # was: from stable_baselines3

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

gym.register_envs(her_envs)
console = Console()


def reach(seed: int) -> SAC:
    """Return SAC for PointReach, whose episodes end only by the time limit."""
    return SAC(
        "MultiInputPolicy",
        gym.make("her_envs/PointReach-v0"),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        learning_rate=1e-3,
        gamma=0.95,
        learning_starts=500,
        policy_kwargs={"net_arch": [64, 64]},
        seed=seed,
    )


def flip(seed: int, bits: int) -> DQN:
    """Return DQN for BitFlipping, whose episodes terminate on success."""
    return DQN(
        "MultiInputPolicy",
        gym.make("her_envs/BitFlipping-v0", n_bits=bits),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={
            "n_sampled_goal": 4,
            "goal_selection_strategy": "future",
        },
        learning_rate=1e-3,
        train_freq=1,
        learning_starts=200,
        target_update_interval=50,
        exploration_final_eps=0.05,
        policy_kwargs={"net_arch": [256]},
        seed=seed,
    )


def train(name: str, model: BaseAlgorithm, env: gym.Env[Any, Any], steps: int) -> float:
    """Train, and return the success rate in 50 test episodes."""
    started = time.perf_counter()
    model.learn(steps)
    rate = evaluate(env, lambda observation: model.predict(observation, deterministic=True)[0], 50, 1_000_000)
    console.print(
        f"{name}: success rate {rate.success_rate:.2f} after {steps:,} steps, "
        f"{time.perf_counter() - started:.0f} s",
        highlight=False,
    )
    return rate.success_rate


def main(reach_steps: int = 3000, flip_steps: int = 3000, bits: int = 10, seed: int = 0) -> None:
    """Train SAC on PointReach and DQN on BitFlipping with Stable-Baselines3.

    For example:

    - python -m examples.sb3_drop_in --seed 1
    - python -m examples.sb3_drop_in --bits 15 --flip-steps 10000

    Args:
        reach_steps: Environment steps of SAC.
        flip_steps: Environment steps of DQN.
        bits: Number of bits to flip.
        seed: Seed of everything random.
    """
    torch.set_num_threads(1)  # faster than several threads, since the networks are small
    train("SAC on PointReach", reach(seed), gym.make("her_envs/PointReach-v0"), reach_steps)
    env = gym.make("her_envs/BitFlipping-v0", n_bits=bits)
    train("DQN on BitFlipping", flip(seed, bits), env, flip_steps)


if __name__ == "__main__":
    tyro.cli(main)
