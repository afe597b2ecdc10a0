"""``her watch``: show a trained agent in a window or as a GIF."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers.commands.make import usage_errors
from her_wrappers.commands.screen import Film, Quit, Screen, picture_of
from her_wrappers.commands.train import unusable
from her_wrappers.environments import FORMS, BrokenModuleError, make_env
from her_wrappers.goal_interface import goal_spaces

if TYPE_CHECKING:
    from her_agents.evaluation import EpisodeResult, Policy

console = Console()


def watch(
    checkpoint: Annotated[
        Path | None,
        typer.Argument(
            help="A checkpoint, a policy file, or the folder of a training, whose best.pt is used."
        ),
    ] = None,
    *,
    recipe: Annotated[
        str | None, typer.Option(help="The trained policy of a recipe, by name.", metavar="NAME")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes.", metavar="N")] = 10,
    record: Annotated[
        Path | None,
        typer.Option(help="Write a GIF instead of opening a window; needs no display.", metavar="FILE"),
    ] = None,
    show: Annotated[
        bool,
        typer.Option("--show/--no-show", help="Whether to show pictures; results are always printed."),
    ] = True,
    env: Annotated[
        str | None, typer.Option(help=f"Another environment with equal spaces: {FORMS}.", metavar="ENV")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of starts and goals.", metavar="N")] = 0,
    fps: Annotated[int, typer.Option(min=1, help="Steps per second.", metavar="N")] = 10,
) -> None:
    """Watch a trained agent, and measure its success rate. Escape stops.

    For example:

    - `her watch runs/PointReach-v0-sac-0/best.pt`
    - `her watch --recipe fetch_push`
    - `her watch runs/PointReach-v0-sac-0 --record reach.gif --episodes 3`
    - `her watch runs/PointReach-v0-sac-0 --no-show --episodes 1000`
    """
    with usage_errors(), unusable(BrokenModuleError):
        shown = show or record is not None
        path = _policy_file(checkpoint, recipe)
        made, policy = _load(path, env, {"render_mode": "rgb_array"} if shown else {})
        screen = Film(record, fps) if record else Screen(fps) if shown else None
        with unusable(ValueError):
            results = _play(made, policy, screen, episodes, seed)
    if results:
        console.print(_table(results))


def _policy_file(checkpoint: Path | None, recipe: str | None) -> Path:
    """Return the path to load.

    Raises:
        ValueError: Not exactly one of the arguments is given, or the recipe has no policy.
    """
    from her_agents.recipes import read_recipe

    if recipe is None:
        if checkpoint is None:
            raise ValueError("expected a checkpoint, got none; pass its path, or --recipe NAME")
        return checkpoint
    if checkpoint is not None:
        raise ValueError(f"expected a checkpoint or --recipe, got {checkpoint} and --recipe {recipe}")
    chosen = read_recipe(recipe)
    chosen.require_installed()
    if not chosen.policy.exists():
        raise ValueError(f"the recipe {recipe!r} has no trained policy; run: her train --recipe {recipe}")
    return chosen.policy


def _load(path: Path, env_name: str | None, options: dict[str, Any]) -> tuple[gym.Env[Any, Any], Policy]:
    """Return the environment of a checkpoint and its agent's policy.

    Raises:
        typer.Exit: The checkpoint or the environment cannot be used.
        ValueError: The environment cannot be made, or has other spaces.
    """
    import torch

    from her_agents.checkpoints import agent_of, best_checkpoint, config_of, load_checkpoint, require_spaces

    torch.set_num_threads(1)  # faster than several threads, since the networks are small
    file = best_checkpoint(path)
    with unusable(ValueError):
        content = load_checkpoint(file)
        agent = agent_of(content, file)
    config = config_of(content)
    if env_name is None:
        env_name, options = config.env, {**config.env_kwargs, **options}
    env = make_env(env_name, disable_env_checker=True, **options)
    with unusable(TypeError, ValueError):
        found = goal_spaces(env)
    require_spaces(file, content, *found)
    return env, agent.act


def _play(
    env: gym.Env[Any, Any], policy: Policy, screen: Screen | Film | None, episodes: int, seed: int
) -> list[EpisodeResult]:
    """Play until the last episode or until the user stops; show the pictures if there is a screen."""
    from her_agents.evaluation import play_episode

    results: list[EpisodeResult] = []

    def show(result: EpisodeResult) -> None:
        if isinstance(screen, Screen):
            screen.keys()
        if screen is not None:
            screen.show(picture_of(env), f"episode {len(results) + 1} | {_describe(result)}")

    try:
        for number in range(episodes):
            results.append(play_episode(env, policy, seed if number == 0 else None, show))
            console.print(f"episode {number + 1}: {_describe(results[-1])}", highlight=False)
    except Quit:
        console.print("stopped")
    finally:
        if screen is not None:
            screen.close()
        env.close()
    return results


def _describe(result: EpisodeResult) -> str:
    success = "success" if result.success else "no success"
    return f"step {result.length} | return {result.total:.4g} | {success}"


def _table(results: list[EpisodeResult]) -> Table:
    """Return a table of statistics of returns and lengths."""
    rate = np.mean([result.success for result in results])
    table = Table(title=f"{len(results)} episodes, success rate {rate:.2f}")
    for column in ("", "mean", "deviation", "lowest", "median", "highest"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in (
        ("return", [result.total for result in results]),
        ("length", [result.length for result in results]),
    ):
        numbers = (np.mean(values), np.std(values), np.min(values), np.median(values), np.max(values))
        table.add_row(name, *(f"{number:.4g}" for number in numbers))
    return table
