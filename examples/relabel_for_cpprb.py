"""HER with a replay buffer that does not support goals: cpprb's prioritized buffer.

`relabel_episode` returns relabeled copies of the transitions when an episode ends, as in the HER paper, and
the buffer stores them like other transitions. A linear value function is trained on BitFlipping, with and
without the copies. Run it with ``python -m examples.relabel_for_cpprb``.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from rich.console import Console
from rich.progress import track

import her_envs
from her_agents import evaluate
from her_wrappers import Episode, EpisodeRecorder, GoalInterface, relabel_episode

ENV_ID = "her_envs/BitFlipping-v0"
BUFFER_SIZE = 100_000
N_SAMPLED_GOAL = 4
BATCH_SIZE = 256
EPSILON = 0.2
GAMMA = 0.95
LEARNING_RATE = 0.2
UPDATES_PER_EPISODE = 10
TEST_SEED = 1_000_000  # differs from the training seeds

gym.register_envs(her_envs)
console = Console()


def make_replay(bits: int) -> Any:
    """Return cpprb's buffer, with the goal as one of its columns.

    Raises:
        ImportError: cpprb is not installed.
    """
    try:
        import cpprb  # noqa: PLC0415 - not a dependency of this project
    except ImportError as error:
        raise ImportError("examples.relabel_for_cpprb needs cpprb; run: pip install cpprb") from error
    column = {"shape": bits, "dtype": np.int8}
    return cpprb.PrioritizedReplayBuffer(
        BUFFER_SIZE,
        {
            "obs": column,
            "goal": column,
            "act": {"dtype": np.int64},
            "rew": {},
            "next_obs": column,
            "done": {"dtype": np.bool_},
        },
    )


def store(replay: Any, episode: Episode) -> None:
    """Add the recorded transitions of an episode."""
    observations = episode.observations
    replay.add(
        obs=observations["observation"][:-1],
        goal=observations["desired_goal"][:-1],
        act=episode.actions,
        rew=episode.rewards,
        next_obs=observations["observation"][1:],
        done=(np.arange(len(episode)) == len(episode) - 1) & episode.terminated,
    )


def store_copies(replay: Any, episode: Episode, goals: GoalInterface, rng: np.random.Generator) -> None:
    """Add relabeled copies of the transitions of an episode."""
    batch = relabel_episode(
        episode, "future", N_SAMPLED_GOAL, goals.compute_reward, rng, termination=goals.compute_terminated
    )
    replay.add(
        obs=batch.observations["observation"],
        goal=batch.observations["desired_goal"],
        act=batch.actions,
        rew=batch.rewards,
        next_obs=batch.next_observations["observation"],
        done=batch.terminations,
    )


class LinearQ:
    """Q-learning with Q values that are linear in the products of each state bit with each goal bit.

    Args:
        bits: Number of bits, and of actions.
        seed: Seed of the exploration.
    """

    def __init__(self, bits: int, seed: int) -> None:
        self._weights = np.zeros(((bits + 1) ** 2, bits))
        self._rng = np.random.default_rng(seed)

    def act(self, observation: dict[str, np.ndarray], epsilon: float = 0.0) -> int:
        """Return the best action or, with probability ``epsilon``, a random action."""
        values = features(observation["observation"][None], observation["desired_goal"][None]) @ self._weights
        return int(self._rng.integers(values.size) if self._rng.random() < epsilon else values.argmax())

    def update(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Update the weights with a batch of cpprb's buffer, and return the TD errors, (B,)."""
        inputs, action = features(rows["obs"], rows["goal"]), rows["act"][:, 0]
        after = (features(rows["next_obs"], rows["goal"]) @ self._weights).max(axis=1)
        target = rows["rew"][:, 0] + GAMMA * np.minimum(after, 0) * ~rows["done"][:, 0]
        errors: np.ndarray = target - (inputs @ self._weights)[np.arange(len(inputs)), action]
        taken = action[:, None] == np.arange(self._weights.shape[1])
        self._weights += (
            LEARNING_RATE * inputs.T @ (taken * (rows["weights"] * errors)[:, None]) / len(inputs)
        )
        return errors


def features(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Return products of state and goal bits, and the bits alone, (B, n), (B, n) -> (B, (n + 1)**2)."""
    first, second = (
        np.concatenate([np.ones((len(bits), 1)), 2.0 * bits - 1], axis=1) for bits in (states, goals)
    )
    products: np.ndarray = first[:, :, None] * second[:, None, :]
    return products.reshape(len(states), -1)


def train(bits: int, episodes: int, seed: int, *, her: bool) -> LinearQ:
    """Train on BitFlipping.

    Args:
        bits: Number of bits.
        episodes: Number of episodes, with some updates after each.
        seed: Seed of everything except the samples of cpprb, which cannot be seeded.
        her: Whether relabeled copies are stored.

    Raises:
        ImportError: cpprb is not installed.
    """
    replay, rng = make_replay(bits), np.random.default_rng(seed)
    env = gym.make(ENV_ID, n_bits=bits)
    goals, agent = GoalInterface.of(env), LinearQ(bits, seed)

    def sink(episode: Episode) -> None:
        store(replay, episode)
        if her:
            store_copies(replay, episode, goals, rng)

    recorder = EpisodeRecorder(env, sink)
    for number in track(range(episodes), f"{'with' if her else 'without'} HER", console=console):
        observation, _ = recorder.reset(seed=seed if number == 0 else None)
        done = False
        while not done:
            observation, _, terminated, truncated, _ = recorder.step(agent.act(observation, EPSILON))
            done = terminated or truncated
        for _ in range(UPDATES_PER_EPISODE):
            rows = replay.sample(BATCH_SIZE)
            replay.update_priorities(rows["indexes"], np.abs(agent.update(rows)))
    return agent


def main(bits: int = 8, episodes: int = 500, seed: int = 0) -> None:
    """Train on BitFlipping from cpprb's prioritized buffer, with and without relabeled copies.

    Needs cpprb, which is not a dependency of her-toolkit: pip install cpprb

    For example:

    - python -m examples.relabel_for_cpprb --seed 1: some seconds
    - python -m examples.relabel_for_cpprb --bits 5: random actions also reach goals with 5 bits
    - python -m examples.relabel_for_cpprb --bits 12 --episodes 2000: a minute

    Args:
        bits: Number of bits to flip.
        episodes: Episodes of each run.
        seed: Seed of environment and agent.
    """
    test_env = gym.make(ENV_ID, n_bits=bits)
    for her in (True, False):
        agent = train(bits, episodes, seed, her=her)
        result = evaluate(test_env, agent.act, 100, TEST_SEED)
        console.print(f"  success rate of the greedy policy: {result.success_rate:.2f}")


if __name__ == "__main__":
    tyro.cli(main)
