"""Offline learning: an agent learns to reach goals from recorded episodes only.

A random walk in a maze is recorded to an archive. Implicit Q-learning is trained on the archive, with goals
relabeled as in OGBench (Park et al. 2024, arXiv 2410.20092). It is compared with random actions, and with the
same run without relabeling. Run it with ``python -m examples.offline_goals``.

Two details differ from OGBench. First, in OGBench the reward of a step depends on the state before the step,
so a transition is a success if its goal is its current state. In Gymnasium, the reward depends on the state
after the step, so here a transition is a success if its goal is its next state, as the function `next_state`
selects it. In both cases, such a transition has the reward of success and terminates. Second, goals near the
end of an episode have other probabilities: OGBench assigns the remaining probability of its geometric
distribution to the last state, and this buffer renormalizes the distribution.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

import her_envs
from her_agents import IQL, Policy, evaluate
from her_wrappers import EpisodeArchive, EpisodeRecorder, Geometric, HindsightReplayBuffer, Mixture

if TYPE_CHECKING:
    from collections.abc import Iterator

ENV_ID = "her_envs/PointMaze-v0"
GAMMA = 0.99
TURN_PROBABILITY = 0.1  # of the random walk, in each step
BATCH_SIZE = 256
TEST_SEED = 1_000_000  # differs from the training seeds
TEST_EPISODES = 100
QUICK = 5, 20, 2  # episodes, updates, and test episodes

gym.register_envs(her_envs)
console = Console()


def next_state(t: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Select the state after each step t as the source of its goal, (B,), (B,) -> (B,)."""
    return t + 1


VALUE_GOALS = Mixture({next_state: 0.2, Geometric(GAMMA): 0.5, "random": 0.3, "original": 0})
POLICY_GOALS = Mixture({"future": 1, "original": 0})  # uniform over the rest of the episode


def random_walk(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield actions that keep their direction for 10 steps on average."""
    while True:
        direction = rng.uniform(-1, 1, 2).astype(np.float32)
        for _ in range(rng.geometric(TURN_PROBABILITY)):
            yield direction


def record_episodes(folder: Path, episodes: int, seed: int) -> EpisodeArchive:
    """Record episodes of the random walk, and return the archive."""
    env = gym.make(ENV_ID)
    actions = random_walk(np.random.default_rng(seed))
    with EpisodeArchive(folder, env=env) as archive:
        recorder = EpisodeRecorder(env, archive)
        for number in track(range(episodes), "recording        ", console=console):
            recorder.reset(seed=seed if number == 0 else None)
            while not any(recorder.step(next(actions))[2:4]):
                pass
    return EpisodeArchive(folder)


def fill(archive: EpisodeArchive, seed: int, goals: Mixture) -> HindsightReplayBuffer:
    """Return a buffer with all episodes of an archive."""
    buffer = HindsightReplayBuffer.for_env(
        gym.make(ENV_ID),
        buffer_size=archive.num_steps,
        termination="success",
        gamma=GAMMA,
        seed=seed,
        goal_selection_strategy=goals,
    )
    buffer.extend(archive)
    return buffer


def train(archive: EpisodeArchive, updates: int, seed: int, *, relabel: bool) -> IQL:
    """Train on an archive.

    Args:
        archive: The recorded episodes.
        updates: Number of updates.
        seed: Seed of the buffers and the agent.
        relabel: Whether goals are relabeled; if False, the recorded goals are used.
    """
    original = Mixture({"original": 1})
    for_values = fill(archive, seed, VALUE_GOALS if relabel else original)
    for_policy = fill(archive, seed + 1, POLICY_GOALS if relabel else original)
    agent = IQL(for_values.observation_space, for_values.action_space, gamma=GAMMA, seed=seed)
    name = "relabeled goals  " if relabel else "recorded goals   "
    for _ in track(range(updates), name, console=console):
        agent.update(for_values.sample(BATCH_SIZE), for_policy.sample(BATCH_SIZE))
    return agent


def main(
    episodes: int = 200, updates: int = 2000, seed: int = 0, archive: Path | None = None, quick: bool = False
) -> None:
    """Learn to reach goals in a maze from recorded episodes, with and without relabeled goals.

    This takes about a minute.

    For example:

    - python -m examples.offline_goals --seed 1
    - python -m examples.offline_goals --archive runs/play, then `her inspect runs/play`
    - python -m examples.offline_goals --quick

    Args:
        episodes: Episodes to record.
        updates: Updates of each run.
        seed: Seed of everything random.
        archive: Folder of the archive; episodes are added. By default a temporary one.
        quick: A short test: few episodes, few updates.
    """
    torch.set_num_threads(1)  # faster than several threads, since the networks are small
    episodes, updates, test_episodes = QUICK if quick else (episodes, updates, TEST_EPISODES)
    with TemporaryDirectory() as folder:
        recorded = record_episodes(archive or Path(folder) / "episodes", episodes, seed)
        agents = {relabel: train(recorded, updates, seed, relabel=relabel) for relabel in (True, False)}
    env = gym.make(ENV_ID)
    env.action_space.seed(seed)
    policies: dict[str, Policy] = {
        "relabeled goals": agents[True].act,
        "recorded goals": agents[False].act,
        "random actions": lambda observation: env.action_space.sample(),
    }
    table = Table("", "success rate", title=f"PointMaze, {recorded.num_steps:,} recorded steps")
    for name, policy in policies.items():
        table.add_row(name, f"{evaluate(env, policy, test_episodes, TEST_SEED).success_rate:.2f}")
    console.print(table)


if __name__ == "__main__":
    tyro.cli(main)
