"""``her show-relabeling``: a failed episode, before and after relabeling."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import typer

from her_envs import TaskEnv
from her_envs.canvas import require_pygame
from her_wrappers.commands.hindsight import EpisodeRenderer, farthest_miss, in_hindsight
from her_wrappers.commands.make import EnvOptions, Policy, import_policy, parse_options
from her_wrappers.commands.panels import panels_of
from her_wrappers.commands.record import info_keys
from her_wrappers.commands.screen import write_picture
from her_wrappers.commands.terminal import fail
from her_wrappers.commands.wandering import random_actions, wandering
from her_wrappers.environments import make_env
from her_wrappers.goal_interface import GoalInterface

if TYPE_CHECKING:
    from her_wrappers.commands.relabeling_page import RelabelingPage


class StrategyName(StrEnum):
    """Name of a goal selection strategy."""

    FINAL = "final"
    FUTURE = "future"
    EPISODE = "episode"
    GEOMETRIC = "geometric"


def show_relabeling(
    env_id: Annotated[
        str, typer.Argument(metavar="ID", help="A goal environment; `her envs` lists the bundled ones.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="File to write: .gif is animated, .png shows more goals.")] = Path(
        "relabeling.gif"
    ),
    strategy: Annotated[StrategyName, typer.Option(help="Goal selection strategy.")] = StrategyName.FINAL,
    n_sampled_goal: Annotated[int, typer.Option(min=1, max=4, help="Goals of each step in a .png.")] = 4,
    policy: Annotated[str, typer.Option(help="Policy: wander, random, or module:function.")] = "wander",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes to choose from.")] = 20,
    option: EnvOptions = None,
    size: Annotated[int, typer.Option(min=64, max=1024, help="Size of each picture in pixels.")] = 320,
    fps: Annotated[int, typer.Option(min=1, max=50, help="Steps per second.")] = 10,
) -> None:
    """Show a failed episode, and next to it the same episode with a goal that it achieved.

    The command plays several episodes and shows the failed one that got farthest. Bundled tasks are drawn
    again with the new goal. For other environments, the rendered pictures and a chart of the goals are shown.

    For example:

    - `her show-relabeling her_envs/PointReach-v0`
    - `her show-relabeling her_envs/PointMaze-v0 -o layout=four_rooms --out maze.gif --seed 7`
    - `her show-relabeling her_envs/PointPush-v0 --strategy future --out push.png`
    """
    is_animated = _is_animated(out)
    page_class = _page_class()
    renderer = _renderer(env_id, parse_options(option))
    with contextlib.closing(renderer.env):
        rendered = farthest_miss(renderer, _policies(renderer.env, policy), range(seed, seed + episodes))
        hindsight = in_hindsight(renderer, rendered, strategy, n_sampled_goal)
        name = " ".join([env_id, *(option or [])])
        page = page_class(name, hindsight, partial(panels_of, renderer.env, rendered), size)
        content = page.gif(fps) if is_animated else page.png()
    write_picture(out, content)
    for side in page.sides:
        typer.echo(f"{side.title}; {side.outcome(len(rendered.episode))}")
    typer.echo(f"seed {rendered.seed} in {out}")


def _is_animated(out: Path) -> bool:
    if out.suffix.lower() not in {".gif", ".png"}:
        raise typer.BadParameter(f"--out must end in .gif or .png, got {out}")
    return out.suffix.lower() == ".gif"


def _page_class() -> type[RelabelingPage]:
    """Import the class that draws; end the command if pillow is missing."""
    require_pygame()
    try:
        from her_wrappers.commands.relabeling_page import RelabelingPage  # noqa: PLC0415 - needs pillow, an extra
    except ImportError:
        fail('show-relabeling needs pillow, which is not installed; run: pip install "her-toolkit[render]"')
    return RelabelingPage


def _renderer(env_id: str, options: dict[str, Any]) -> EpisodeRenderer:
    """Return a renderer of episodes of an environment; end the command if it is not a goal environment."""
    env = make_env(env_id, **options)
    if not isinstance(env.unwrapped, TaskEnv) and "rgb_array" in env.metadata.get("render_modes", ()):
        env.close()
        env = make_env(env_id, **{"render_mode": "rgb_array"} | options)
    try:
        return EpisodeRenderer(env, GoalInterface.of(env), info_keys(env, []))
    except ValueError as error:
        fail(f"{env_id} is not a goal environment: {error}")


def _policies(env: gym.Env[Any, Any], name: str) -> Callable[[int], Policy]:
    """Return a function that returns the policy for a seed."""
    if name in _BUILT_IN:
        return partial(_BUILT_IN[name], env.action_space)
    policy = import_policy(name, known=_BUILT_IN)
    return lambda seed: policy


_BUILT_IN = {"wander": wandering, "random": random_actions}
