"""Watch a trained agent: ``python -m examples.play runs/PointReach-v0-sac-0/best.pt``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from examples.evaluate import Outcome, Policy, play_episode
from examples.training.checkpoints import config_of, load_checkpoint, require_spaces
from examples.training.display import one_sentence
from examples.training.parts import make_agent, make_env, use_threads
from her_wrappers.commands.screen import Film, Quit, Screen, picture_of

console = Console()


def main(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or a training's folder for its best.")],
    *,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play.")] = 10,
    record: Annotated[
        Path | None, typer.Option(help="Write a GIF instead of opening a window; needs no display.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show/--no-show", help="Whether to show it at all; the numbers come anyway.")
    ] = True,
    env: Annotated[str | None, typer.Option(help="Another environment, with the same spaces.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seeds starts and goals.")] = 0,
    fps: Annotated[int, typer.Option(min=1, help="Steps shown a second.")] = 10,
) -> None:
    """Show what an agent has learned, and tell how good it is. Escape ends.

    For example:

    - `python -m examples.play runs/PointReach-v0-sac-0/best.pt`
    - `python -m examples.play runs/PointReach-v0-sac-0/best.pt --record reach.gif --episodes 3`
    - `python -m examples.play runs/PointReach-v0-sac-0 --no-show --episodes 1000`
    """
    use_threads(1)
    with one_sentence():
        shown = show or record is not None
        path = checkpoint / "best.pt" if checkpoint.is_dir() else checkpoint
        world, policy = _load(path, env, {"render_mode": "rgb_array"} if shown else {})
        screen = Film(record, fps) if record else Screen(fps) if shown else None
        results = _play(world, policy, screen, episodes, seed)
    if results:
        console.print(_table(results))


def _load(path: Path, env_id: str | None, options: dict[str, Any]) -> tuple[gym.Env[Any, Any], Policy]:
    """Return the environment of a checkpoint and its agent's policy.

    Raises:
        TypeError: The environment does not fit the agent.
        ValueError: There is no such checkpoint, or it does not fit the environment.
    """
    content = load_checkpoint(path)
    config = config_of(content)
    if env_id is not None:
        config = replace(config, env=env_id, env_kwargs={})
    env = make_env(config, **options)
    require_spaces(path, content, env.observation_space, env.action_space)
    agent = make_agent(config, env.observation_space, env.action_space)
    agent.load_state_dict(content["agent"])
    return env, agent.act


def _play(
    env: gym.Env[Any, Any], policy: Policy, screen: Screen | Film | None, episodes: int, seed: int
) -> list[Outcome]:
    """Play, and show it if there is a screen, until the last episode or until the player has seen enough.

    Raises:
        ValueError: The environment does not tell success.
        typer.BadParameter: There is a screen, and the environment draws no pictures.
    """
    outcomes: list[Outcome] = []

    def watch(outcome: Outcome) -> None:
        if isinstance(screen, Screen):
            screen.keys()
        if screen is not None:
            screen.show(picture_of(env), f"episode {len(outcomes) + 1} | {_describe(outcome)}")

    try:
        for number in range(episodes):
            outcomes.append(play_episode(env, policy, seed if number == 0 else None, watch))
            console.print(f"episode {number + 1}: {_describe(outcomes[-1])}", highlight=False)
    except Quit:
        console.print("bye")
    finally:
        if screen is not None:
            screen.close()
        env.close()
    return outcomes


def _describe(outcome: Outcome) -> str:
    success = "success" if outcome.success else "no success"
    return f"step {outcome.length} | return {outcome.total:.4g} | {success}"


def _table(outcomes: list[Outcome]) -> Table:
    """Return the statistics as a table."""
    rate = np.mean([outcome.success for outcome in outcomes])
    table = Table(title=f"{len(outcomes)} episodes, success rate {rate:.2f}")
    for column in ("", "mean", "deviation", "least", "median", "largest"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in (
        ("return", [outcome.total for outcome in outcomes]),
        ("length", [outcome.length for outcome in outcomes]),
    ):
        numbers = (np.mean(values), np.std(values), np.min(values), np.median(values), np.max(values))
        table.add_row(name, *(f"{number:.4g}" for number in numbers))
    return table


app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
app.command()(main)

if __name__ == "__main__":
    app()
