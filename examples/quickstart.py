"""Check an environment, record, relabel, train, and show the result.

DQN is trained on BitFlipping with Hindsight Experience Replay (HER) until the task is solved. Then it is
trained without HER until the task is solved, but for at most twice as many environment steps. No run is
longer than ``--steps``. Run it with ``make demo`` or ``python -m examples.quickstart``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import imageio.v3 as imageio
import numpy as np
import torch
import tyro
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import her_envs
from her_agents import DQN, evaluate
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, check_goal_env

if TYPE_CHECKING:
    from collections.abc import Callable

ENV_ID = "her_envs/BitFlipping-v0"
EPSILON = 0.3  # exploration while collecting, as in Plappert et al. 2018 (arXiv 1802.09464)
GAMMA = 0.98  # this and the next two as in the HER paper, appendix A
EPISODES_PER_CYCLE = 16
UPDATES_PER_CYCLE = 40
BATCH_SIZE = 256
STEPS_PER_EVALUATION = 1_000
SOLVED = 2  # evaluations in a row without a failure
TEST_SEED = 1_000_000  # differs from the training seeds

gym.register_envs(her_envs)
console = Console()


@dataclass
class Run:
    """A run and its learning curve."""

    name: str
    agent: DQN
    env_steps: int = 0
    updates: int = 0
    started: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    curve: list[tuple[int, float]] = field(default_factory=list)  # environment steps, success rate

    def measure(self, env: gym.Env[Any, Any]) -> None:
        """Evaluate the agent, and add the success rate to the curve."""
        self.curve.append((self.env_steps, evaluate(env, self.agent.act, 50, TEST_SEED).success_rate))
        self.seconds = time.perf_counter() - self.started

    @property
    def solved(self) -> bool:
        """Whether all episodes of the last few evaluations were successes."""
        return [rate for _, rate in self.curve[-SOLVED:]] == [1.0] * SOLVED


def train(bits: int, steps: int, seed: int, *, her: bool, show: Callable[[Run], None]) -> Run:
    """Train DQN on BitFlipping until it is solved, or for ``steps`` environment steps.

    Args:
        bits: Number of bits.
        steps: Largest number of environment steps.
        seed: Seed of everything random.
        her: Whether to relabel goals; this is the only difference between the two runs.
        show: Function that is called with the run after each evaluation.
    """
    env = gym.make(ENV_ID, n_bits=bits)
    buffer = HindsightReplayBuffer.for_env(env, n_sampled_goal=4 if her else 0, gamma=GAMMA, seed=seed)
    agent = DQN(buffer.observation_space, buffer.action_space, gamma=GAMMA, epsilon=EPSILON, seed=seed)
    run = Run("with HER" if her else "without HER", agent)
    test_env = gym.make(ENV_ID, n_bits=bits)
    env = EpisodeRecorder(env, buffer.add_episode)
    observation, _ = env.reset(seed=seed)
    episodes = 0
    while run.env_steps < steps and not run.solved:
        observation, _, terminated, truncated, _ = env.step(agent.act(observation, explore=True))
        run.env_steps += 1
        if terminated or truncated:
            observation, _ = env.reset()
            episodes += 1
            if episodes % EPISODES_PER_CYCLE == 0:
                for _ in range(UPDATES_PER_CYCLE):
                    agent.update(buffer.sample(BATCH_SIZE))
                run.updates += UPDATES_PER_CYCLE
        if run.env_steps % STEPS_PER_EVALUATION == 0 or run.env_steps == steps:
            run.measure(test_env)
            show(run)
    return run


def save_learning_curve(runs: list[Run], bits: int, path: Path) -> None:
    """Draw the success rate of each run against its environment steps."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for run, style in zip(runs, ("-", "--"), strict=False):
        steps, rates = np.transpose([(0, 0.0), *run.curve])
        axes.plot(steps, rates, style, linewidth=2.2, label=run.name)
    axes.set(
        title=f"DQN flipping {bits} bits",
        xlabel="environment steps",
        ylabel="success rate of the greedy policy",
        ylim=(-0.03, 1.03),
        xlim=(0, None),
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="center right")
    figure.savefig(path, dpi=150)


def save_rollout(agent: DQN, bits: int, path: Path, episodes: int = 3) -> None:
    """Record the greedy policy as a GIF that shows the last state of each episode for longer."""
    env = gym.make(ENV_ID, n_bits=bits, render_mode="rgb_array", render_size=360)
    frames: list[Any] = []
    milliseconds = []
    for i in range(episodes):
        observation, _ = env.reset(seed=TEST_SEED if i == 0 else None)
        done = False
        while not done:
            frames.append(env.render())
            milliseconds.append(400)
            observation, _, terminated, truncated, _ = env.step(agent.act(observation))
            done = terminated or truncated
        frames.append(env.render())
        milliseconds.append(1500)
    imageio.imwrite(path, frames, duration=milliseconds, loop=0)


def results_table(runs: list[Run], bits: int) -> Table:
    """Return the results in 100 new episodes as a table."""
    env = gym.make(ENV_ID, n_bits=bits)
    table = Table(title=f"{bits} bits, 100 greedy episodes")
    for column in ("", "success rate", "mean length", "env steps", "updates", "seconds"):
        table.add_column(column, justify="left" if not column else "right")
    for run in runs:
        result = evaluate(env, run.agent.act, 100, TEST_SEED + 1)
        numbers = f"{result.success_rate:.2f}", f"{result.mean_length:.1f}"
        table.add_row(run.name, *numbers, f"{run.env_steps:,}", f"{run.updates:,}", f"{run.seconds:.0f}")
    return table


def main(bits: int = 15, steps: int = 50_000, seed: int = 0, out: Path = Path("runs/quickstart")) -> None:
    """Train DQN on BitFlipping with Hindsight Experience Replay, then without it for at most twice as long.

    Writes rollout.gif and learning_curve.png.

    For example:

    - python -m examples.quickstart --seed 1
    - python -m examples.quickstart --bits 8: DQN without HER solves this too, but later
    - python -m examples.quickstart --bits 30 --steps 150000

    Args:
        bits: Number of bits to flip.
        steps: Largest number of steps of a run.
        seed: Seed of environments, buffers and weights.
        out: Folder for the pictures.
    """
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # faster than several threads, since the network is small
    report = check_goal_env(gym.make(ENV_ID, n_bits=bits))
    console.print(f"Goal interface of {report.summary()}", highlight=False)
    report.raise_if_errors()

    def show(run: Run) -> None:
        console.print(f"{run.name:<11} {run.env_steps:>7,} steps: success rate {run.curve[-1][1]:.2f}")

    runs = [train(bits, steps, seed, her=True, show=show)]
    save_rollout(runs[0].agent, bits, out / "rollout.gif")
    console.print(f"The agent with HER: {out / 'rollout.gif'}", soft_wrap=True)
    # Twice the steps show whether training without HER is only slower, or does not learn at all.
    runs.append(train(bits, min(steps, 2 * runs[0].env_steps), seed, her=False, show=show))
    save_learning_curve(runs, bits, out / "learning_curve.png")
    console.print(results_table(runs, bits))
    console.print(f"Learning curve: {out / 'learning_curve.png'}", soft_wrap=True)


if __name__ == "__main__":
    tyro.cli(main)
