"""Goals from recorded play: an agent that never acts while it learns.

A wanderer that wants nothing in particular is recorded in a maze, into an archive. From the archive alone,
implicit Q-learning learns to go anywhere, its goals relabeled by OGBench's settings (Park et al. 2024, arXiv
2410.20092). Random actions and the same learner without relabeling stand beside it. Run it with
``python -m examples.offline_goals``.

One of OGBench's settings cannot be copied word for word. It pays a step for the state that it begins in, so
the goals that teach what success is worth are "current" ones: that very state. Gymnasium pays for the state
that the step leads to, so here they are the goals that the step reaches, `reached_at_once`: in both, the rows
that are paid and end. The odds of the others are OGBench's up to what is left of an episode: its geometric
goals pile up at the episode's end where ours are renormalized.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import numpy as np
import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import her_envs
from her_agents.evaluation import Policy, evaluate
from her_agents.iql import IQL
from her_wrappers import EpisodeArchive, EpisodeRecorder, Geometric, HindsightReplayBuffer, Mixture

if TYPE_CHECKING:
    from collections.abc import Iterator

ENV_ID = "her_envs/PointMaze-v0"
GAMMA = 0.99
TURN = 0.1  # how often the wanderer takes another direction
BATCH_SIZE = 256
TEST_SEED = 1_000_000  # far from the training seeds
TEST_EPISODES = 100
QUICK = 5, 20, 2  # episodes, updates, and test episodes

gym.register_envs(her_envs)
console = Console()


def reached_at_once(t: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose as the goal of a step the state that it leads to."""
    return t + 1


VALUE_GOALS = Mixture({reached_at_once: 0.2, Geometric(GAMMA): 0.5, "random": 0.3})
POLICY_GOALS = "future"  # uniformly over what is left of the trajectory


def wander(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Go straight ahead for a while, and then elsewhere: 10 steps on average."""
    while True:
        direction = rng.uniform(-1, 1, 2).astype(np.float32)
        for _ in range(rng.geometric(TURN)):
            yield direction


def record_play(folder: Path, episodes: int, seed: int) -> EpisodeArchive:
    """Record the wanderer and return the archive."""
    env = gym.make(ENV_ID)
    actions = wander(np.random.default_rng(seed))
    with EpisodeArchive(folder, env=env) as archive:
        recorder = EpisodeRecorder(env, archive)
        for number in track(range(episodes), "play is recorded ", console=console):
            recorder.reset(seed=seed if number == 0 else None)
            while not any(recorder.step(next(actions))[2:4]):
                pass
    return EpisodeArchive(folder)


def fill(archive: EpisodeArchive, seed: int, **options: Any) -> HindsightReplayBuffer:
    """Make a buffer of all that is in an archive."""
    buffer = HindsightReplayBuffer.for_env(
        gym.make(ENV_ID),
        buffer_size=archive.num_steps,
        termination="success",
        gamma=GAMMA,
        seed=seed,
        **options,
    )
    buffer.extend(archive)
    return buffer


def train(archive: EpisodeArchive, updates: int, seed: int, *, relabel: bool) -> IQL:
    """Learn from an archive alone.

    Args:
        archive: The episodes.
        updates: Steps of gradient descent.
        seed: Seeds all.
        relabel: Whether goals are relabeled. Without, they are those that the wanderer never knew of.
    """
    her_ratio = float(relabel)
    for_values = fill(archive, seed, her_ratio=her_ratio, goal_selection_strategy=VALUE_GOALS)
    for_policy = fill(archive, seed + 1, her_ratio=her_ratio, goal_selection_strategy=POLICY_GOALS)
    agent = IQL(for_values.observation_space, for_values.action_space, seed=seed)
    name = "goals relabeled  " if relabel else "goals as they are"
    for _ in track(range(updates), name, console=console):
        agent.update(for_values.sample(BATCH_SIZE), for_policy.sample(BATCH_SIZE))
    return agent


def main(
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of play to record.")] = 200,
    updates: Annotated[int, typer.Option(min=1, help="Steps of gradient descent of each training.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 2, help="Seeds everything.")] = 0,
    archive: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder for the archive; it is added to. Not kept without."),
    ] = None,
    quick: Annotated[bool, typer.Option(help="Only show that it runs: little play, few updates.")] = False,
) -> None:
    """Learn to reach goals in a maze from recorded play alone, with and without relabeled goals.

    It takes about a minute.

    For example:

    - `python -m examples.offline_goals --seed 1`
    - `python -m examples.offline_goals --archive runs/play`, then `her inspect runs/play`
    - `python -m examples.offline_goals --quick`
    """
    torch.set_num_threads(1)  # the networks are so small that more threads only wait for each other
    episodes, updates, test_episodes = QUICK if quick else (episodes, updates, TEST_EPISODES)
    with TemporaryDirectory() as folder:
        play = record_play(archive or Path(folder) / "play", episodes, seed)
        agents = {relabel: train(play, updates, seed, relabel=relabel) for relabel in (True, False)}
    env = gym.make(ENV_ID)
    env.action_space.seed(seed)
    policies: dict[str, Policy] = {
        "relabeled goals": agents[True].act,
        "goals as they are": agents[False].act,
        "random actions": lambda observation: env.action_space.sample(),
    }
    table = Table("", "success rate", title=f"PointMaze, {play.num_steps:,} recorded steps")
    for name, policy in policies.items():
        table.add_row(name, f"{evaluate(env, policy, test_episodes, TEST_SEED).success_rate:.2f}")
    console.print(table)


app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
app.command()(main)

if __name__ == "__main__":
    app()
