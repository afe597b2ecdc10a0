"""From an environment to an agent that solves it: check, record, relabel, train, look.

DQN learns to flip bits twice with the same number of environment steps, once with Hindsight Experience Replay
and once without. Run it with ``make demo`` or ``python -m examples.quickstart``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import imageio.v3 as imageio
import numpy as np
import torch
import typer
from her_agents.display import progress_display
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import her_envs
from her_agents.dqn import DQN
from her_agents.evaluation import Evaluation, Policy, evaluate
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, check_goal_env

if TYPE_CHECKING:
    from collections.abc import Callable

ENV_ID = "her_envs/BitFlipping-v0"
EPSILON = 0.3  # exploration while collecting, as in Plappert et al. 2018 (arXiv 1802.09464)
GAMMA = 0.98  # this and the next two as in the HER paper, appendix A
EPISODES_PER_CYCLE = 16
UPDATES_PER_CYCLE = 40
BATCH_SIZE = 256
EVALUATIONS = 25  # over the whole training
TEST_SEED = 1_000_000  # far from the training seeds

gym.register_envs(her_envs)
console = Console()


@dataclass
class Run:
    """One training, as far as it has come."""

    name: str
    agent: DQN
    env_steps: int = 0
    episodes: int = 0
    updates: int = 0
    started: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    curve: list[tuple[int, float]] = field(default_factory=list)  # environment steps, success rate

    @property
    def success_rate(self) -> float:
        """Latest success rate."""
        return self.curve[-1][1] if self.curve else 0.0

    def measure(self, env: gym.Env[Any, Any]) -> None:
        """Add the present success rate to the curve."""
        self.curve.append((self.env_steps, evaluate(env, self.agent.act, 50, TEST_SEED).success_rate))
        self.seconds = time.perf_counter() - self.started

    def update(self, buffer: HindsightReplayBuffer) -> None:
        """Learn for a while."""
        for _ in range(UPDATES_PER_CYCLE):
            self.agent.update(buffer.sample(BATCH_SIZE))
        self.updates += UPDATES_PER_CYCLE
        self.seconds = time.perf_counter() - self.started


def train(bits: int, steps: int, seed: int, *, her: bool, show: Callable[[Run], None]) -> Run:
    """Train DQN on BitFlipping.

    Args:
        bits: Number of bits.
        steps: Environment steps.
        seed: Seeds everything.
        her: Whether to relabel. All else is equal: who solves episodes sooner has more of them in as many
            steps, and so more updates.
        show: Called now and then with the state of the training.
    """
    env = gym.make(ENV_ID, n_bits=bits)
    buffer = HindsightReplayBuffer.for_env(env, n_sampled_goal=4 if her else 0, gamma=GAMMA, seed=seed)
    spaces = buffer.observation_space, buffer.action_space
    agent = DQN(*spaces, gamma=GAMMA, epsilon=EPSILON, seed=seed)
    run = Run("with HER" if her else "without HER", agent)
    test_env = gym.make(ENV_ID, n_bits=bits)
    env = EpisodeRecorder(env, buffer.add_episode)
    observation, _ = env.reset(seed=seed)
    while True:
        if run.env_steps % max(1, steps // EVALUATIONS) == 0:
            run.measure(test_env)
        if run.env_steps == steps:
            break
        observation, _, terminated, truncated, _ = env.step(agent.act(observation, explore=True))
        run.env_steps += 1
        if not (terminated or truncated):
            continue
        observation, _ = env.reset()
        run.episodes += 1
        if run.episodes % EPISODES_PER_CYCLE == 0:
            run.update(buffer)
            show(run)
    show(run)
    return run


def train_with_and_without(bits: int, steps: int, seed: int) -> list[Run]:
    """Train twice and show how it goes."""
    runs = []
    with progress_display(console) as progress:
        for her in (True, False):
            name = "with HER" if her else "without HER"
            task = progress.add_task(name, total=steps, success=0.0, steps_per_s=0.0, updates_per_s=0.0)

            def show(run: Run, task: Any = task) -> None:
                progress.update(
                    task,
                    completed=run.env_steps,
                    success=run.success_rate,
                    steps_per_s=run.env_steps / run.seconds,
                    updates_per_s=run.updates / run.seconds,
                )

            runs.append(train(bits, steps, seed, her=her, show=show))
    return runs


def save_learning_curve(runs: list[Run], bits: int, path: Path) -> None:
    """Draw the success rate of each run against its environment steps."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for run, colour, style in zip(runs, ("#0072b2", "#d55e00"), ("-", "--"), strict=True):
        curve = np.array(run.curve)
        axes.plot(curve[:, 0], curve[:, 1], style, color=colour, linewidth=2.2, label=run.name)
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


def save_rollout(policy: Policy, bits: int, path: Path, episodes: int = 3) -> None:
    """Record a policy as a moving picture; each episode's last state stays a while."""
    env = gym.make(ENV_ID, n_bits=bits, render_mode="rgb_array", render_size=360)
    frames: list[Any] = []
    milliseconds = []
    for i in range(episodes):
        observation, _ = env.reset(seed=TEST_SEED if i == 0 else None)
        done = False
        while not done:
            frames.append(env.render())
            milliseconds.append(400)
            observation, _, terminated, truncated, _ = env.step(policy(observation))
            done = terminated or truncated
        frames.append(env.render())
        milliseconds.append(1500)
    imageio.imwrite(path, frames, duration=milliseconds, loop=0)


def results_table(runs: list[Run], results: list[Evaluation], bits: int, steps: int) -> Table:
    """Return the outcome as a table."""
    table = Table(title=f"{bits} bits, {steps:,} environment steps, 100 greedy episodes")
    for column in ("", "success rate", "mean length", "updates", "seconds"):
        table.add_column(column, justify="left" if not column else "right")
    for run, result in zip(runs, results, strict=True):
        table.add_row(
            run.name,
            f"{result.success_rate:.2f}",
            f"{result.mean_length:.1f}",
            f"{run.updates:,}",
            f"{run.seconds:.0f}",
        )
    return table


def main(
    bits: Annotated[int, typer.Option(min=1, help="Number of bits to flip.")] = 15,
    steps: Annotated[int, typer.Option(min=1, help="Environment steps of each training.")] = 50_000,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Seeds environments, buffers and weights.")
    ] = 0,
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for the pictures.")] = Path(
        "runs/quickstart"
    ),
) -> None:
    """Train DQN on BitFlipping with and without Hindsight Experience Replay.

    Writes learning_curve.png and rollout.gif.

    For example:

    - `python -m examples.quickstart --seed 1`
    - `python -m examples.quickstart --bits 10`: plain DQN still learns, only later
    - `python -m examples.quickstart --bits 30 --steps 150000`
    """
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # the network is so small that more threads only wait for each other
    report = check_goal_env(gym.make(ENV_ID, n_bits=bits))
    console.print(f"Goal interface of {report.summary()}", highlight=False)
    report.raise_if_errors()
    runs = train_with_and_without(bits, steps, seed)
    test_env = gym.make(ENV_ID, n_bits=bits)
    results = [evaluate(test_env, run.agent.act, 100, TEST_SEED + 1) for run in runs]
    console.print(results_table(runs, results, bits, steps))

    save_learning_curve(runs, bits, out / "learning_curve.png")
    save_rollout(runs[0].agent.act, bits, out / "rollout.gif")
    console.print(
        f"Learning curve: {out / 'learning_curve.png'}\nThe agent with HER at work: {out / 'rollout.gif'}"
    )


app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
app.command()(main)

if __name__ == "__main__":
    app()
