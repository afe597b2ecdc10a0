"""``her show-relabeling``: an episode that missed its goal, as it was and in hindsight."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import typer
from gymnasium.error import DependencyNotInstalled

from her_envs import TaskEnv
from her_envs.canvas import require_pygame
from her_wrappers.commands.hindsight import Scene, farthest_miss, in_hindsight
from her_wrappers.commands.make import EnvOptions, Policy, import_policy, make_env, parse_options
from her_wrappers.commands.panels import panels_of
from her_wrappers.commands.record import info_keys
from her_wrappers.commands.screen import write_picture
from her_wrappers.commands.terminal import fail
from her_wrappers.commands.wandering import random_actions, wandering
from her_wrappers.goal_interface import GoalInterface

if TYPE_CHECKING:
    from her_wrappers.commands.relabeling_page import Page


class StrategyName(StrEnum):
    """What chooses the goals."""

    FINAL = "final"
    FUTURE = "future"
    EPISODE = "episode"
    GEOMETRIC = "geometric"


def show_relabeling(
    env_id: Annotated[str, typer.Argument(metavar="ID", help="A goal environment; `her envs` lists ours.")],
    *,
    out: Annotated[Path, typer.Option(help="The file: .gif moves, .png shows more goals.")] = Path(
        "relabeling.gif"
    ),
    strategy: Annotated[
        StrategyName, typer.Option(help="What chooses the goals of hindsight.")
    ] = StrategyName.FINAL,
    n_sampled_goal: Annotated[int, typer.Option(min=1, max=4, help="Goals of a step in a .png.")] = 4,
    policy: Annotated[str, typer.Option(help="What acts: wander, random, or module:function.")] = "wander",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode that is looked at.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to choose from.")] = 20,
    option: EnvOptions = None,
    size: Annotated[int, typer.Option(min=64, max=1024, help="Side of each of the two pictures.")] = 320,
    fps: Annotated[int, typer.Option(min=1, max=50, help="Steps shown a second.")] = 10,
) -> None:
    """Show an episode that missed its goal beside the same episode under a goal of hindsight.

    Of some episodes that missed their goals, the one that got farthest is shown.

    Bundled tasks are drawn anew with the other goal; of others, pictures and a chart of goals are shown.

    For example:

    - `her show-relabeling her_envs/PointReach-v0`
    - `her show-relabeling her_envs/PointMaze-v0 -o layout=four_rooms --out maze.gif --seed 7`
    - `her show-relabeling her_envs/PointPush-v0 --strategy future --out push.png`
    """
    moves = _moves(out)
    page_class = _page_class()
    scene = _scene(env_id, parse_options(option))
    with _one_sentence(env_id), contextlib.closing(scene.env):
        take = farthest_miss(scene, _policies(scene.env, policy), range(seed, seed + episodes))
        hindsight = in_hindsight(scene, take, strategy, n_sampled_goal)
        name = " ".join([env_id, *(option or [])])
        page = page_class(name, hindsight, partial(panels_of, scene.env, take), size)
        content = page.gif(fps) if moves else page.png()
    write_picture(out, content)
    for side in page.sides:
        typer.echo(f"{side.title}; {side.outcome(len(take.episode))}")
    typer.echo(f"seed {take.seed} in {out}")


@contextlib.contextmanager
def _one_sentence(env_id: str) -> Iterator[None]:
    """End the command if the environment or its episodes cannot be shown."""
    try:
        yield
    except (TypeError, ValueError) as error:
        fail(f"cannot show {env_id}: {error}")
    except LookupError as error:  # of infos that hold for the recorded goal alone, and are not recorded
        fail(
            f"cannot show {env_id}: compute_reward must do without infos, "
            f"got {type(error).__name__}: {error}; `her check` tells more"
        )


def _moves(out: Path) -> bool:
    """Say whether a file moves.

    Raises:
        typer.BadParameter: It is none of ours.
    """
    if out.suffix.lower() not in {".gif", ".png"}:
        raise typer.BadParameter(f"--out must end in .gif or .png, got {out}")
    return out.suffix.lower() == ".gif"


def _page_class() -> type[Page]:
    """Import the page; end the command if pygame or pillow is missing."""
    try:
        require_pygame()
        from her_wrappers.commands.relabeling_page import Page  # noqa: PLC0415 - needs pillow, an extra
    except DependencyNotInstalled as error:
        fail(str(error))
    except ImportError:
        fail('show-relabeling needs pillow, which is not installed; run: pip install "her-toolkit[render]"')
    return Page


def _scene(env_id: str, options: dict[str, Any]) -> Scene:
    """Make a goal environment, with pictures if it has them; end the command if it has no goals."""
    env = make_env(env_id, **options)
    if not isinstance(env.unwrapped, TaskEnv) and "rgb_array" in env.metadata.get("render_modes", ()):
        env.close()
        env = make_env(env_id, **{"render_mode": "rgb_array"} | options)
    try:
        return Scene(env, GoalInterface.of(env), info_keys(env, []))
    except ValueError as error:
        fail(f"{env_id} is not a goal environment: {error}")


def _policies(env: gym.Env[Any, Any], name: str) -> Callable[[int], Policy]:
    """Return what makes a policy from a seed."""
    if name in _BUILT_IN:
        return partial(_BUILT_IN[name], env.action_space)
    policy = import_policy(name, known=_BUILT_IN)
    return lambda seed: policy


_BUILT_IN = {"wander": wandering, "random": random_actions}
