"""Hindsight for a replay buffer that knows nothing of goals: cpprb's prioritized one.

`relabel_episode` makes the relabeled copies when an episode ends, as HER was first written down, and the
buffer stores them like any other transitions. A linear value function learns to flip bits, once with the
copies and once from the recorded transitions alone. Run it with ``python -m examples.relabel_for_cpprb``.
"""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from rich.console import Console
from rich.progress import track

import her_envs
from her_agents.evaluation import evaluate
from her_wrappers import Episode, EpisodeRecorder, GoalInterface, relabel_episode

ENV_ID = "her_envs/BitFlipping-v0"
BUFFER_SIZE = 100_000
N_SAMPLED_GOAL = 4
BATCH_SIZE = 256
EPSILON = 0.2
GAMMA = 0.95
LEARNING_RATE = 0.2
UPDATES_PER_EPISODE = 10
TEST_SEED = 1_000_000  # far from the training seeds

gym.register_envs(her_envs)
console = Console()


def make_replay(bits: int) -> Any:
    """Make cpprb's buffer: a column for each part of a transition, the goal being one like any other.

    Raises:
        ImportError: cpprb is not installed.
    """
    try:
        import cpprb  # noqa: PLC0415 - nothing else here needs it, and it is no extra of ours
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
    """Add the transitions of an episode as they were recorded."""
    seen = episode.observations
    replay.add(
        obs=seen["observation"][:-1],
        goal=seen["desired_goal"][:-1],
        act=episode.actions,
        rew=episode.rewards,
        next_obs=seen["observation"][1:],
        done=(np.arange(len(episode)) == len(episode) - 1) & episode.terminated,
    )


def store_copies(replay: Any, episode: Episode, goals: GoalInterface, rng: np.random.Generator) -> None:
    """Add relabeled copies of them; those that reach their new goal are done."""
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
    """Q-learning with values that are linear in all products of a bit of the state and a bit of the goal.

    Args:
        bits: Bits of a state and of a goal; as many actions.
        seed: Seeds the exploration.
    """

    def __init__(self, bits: int, seed: int) -> None:
        self._weights = np.zeros(((bits + 1) ** 2, bits))
        self._rng = np.random.default_rng(seed)

    def act(self, observation: dict[str, np.ndarray], epsilon: float = 0.0) -> int:
        """Return the best action, or with probability ``epsilon`` any."""
        values = features(observation["observation"][None], observation["desired_goal"][None]) @ self._weights
        return int(self._rng.integers(values.size) if self._rng.random() < epsilon else values.argmax())

    def update(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Learn from a batch of cpprb's and return the (B,) errors that it had."""
        seen, action = features(rows["obs"], rows["goal"]), rows["act"][:, 0]
        after = (features(rows["next_obs"], rows["goal"]) @ self._weights).max(axis=1)
        target = rows["rew"][:, 0] + GAMMA * np.minimum(after, 0) * ~rows["done"][:, 0]
        errors: np.ndarray = target - (seen @ self._weights)[np.arange(len(seen)), action]
        taken = action[:, None] == np.arange(self._weights.shape[1])
        self._weights += LEARNING_RATE * seen.T @ (taken * (rows["weights"] * errors)[:, None]) / len(seen)
        return errors


def features(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Return the products of all bits of (B, n) states with all of (B, n) goals, and the bits themselves."""
    parts = [np.concatenate([np.ones((len(bits), 1)), 2.0 * bits - 1], axis=1) for bits in (states, goals)]
    products: np.ndarray = parts[0][:, :, None] * parts[1][:, None, :]
    return products.reshape(len(states), -1)


def train(bits: int, episodes: int, seed: int, *, her: bool) -> LinearQ:
    """Learn to flip bits.

    Args:
        bits: Number of bits.
        episodes: How many to play, with some updates after each.
        seed: Seeds all but cpprb's draws, which cannot be seeded.
        her: Whether the copies are stored too.

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


def train_or_say_why_not(bits: int, episodes: int, seed: int, *, her: bool) -> LinearQ:
    """Call `train` for the command line.

    Raises:
        typer.Exit: cpprb is not installed, and the user was told.
    """
    try:
        return train(bits, episodes, seed, her=her)
    except ImportError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from error


def main(
    bits: Annotated[int, typer.Option(min=1, max=30, help="Number of bits to flip.")] = 8,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each training.")] = 500,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seeds the environment and the agent.")] = 0,
) -> None:
    """Train on BitFlipping from cpprb's prioritized buffer, with and without relabeled copies.

    Needs cpprb, which is no part of her-toolkit: pip install cpprb

    For example:

    - `python -m examples.relabel_for_cpprb --seed 1`: some seconds
    - `python -m examples.relabel_for_cpprb --bits 5`: so few that chance finds goals, too
    - `python -m examples.relabel_for_cpprb --bits 12 --episodes 2000`: a minute
    """
    test_env = gym.make(ENV_ID, n_bits=bits)
    for her in (True, False):
        agent = train_or_say_why_not(bits, episodes, seed, her=her)
        result = evaluate(test_env, agent.act, 100, TEST_SEED)
        console.print(f"  success rate of the greedy policy: {result.success_rate:.2f}")


app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
app.command()(main)

if __name__ == "__main__":
    app()
