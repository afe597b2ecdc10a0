"""``her envs``: the bundled environments and their options."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import gymnasium as gym
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from her_envs import TaskEnv, TaskVectorEnv
from her_envs.registration import ENTRY_POINTS
from her_wrappers.commands.terminal import CommandError


def envs(env: Positional[Annotated[str | None, arg(metavar="ENV")]] = None) -> None:
    """List the bundled environments, or show the documentation of one with all its options.

    For example:

    - her envs
    - her envs her_envs/PointMaze-v0

    Args:
        env: Environment to show with all its options.
    """
    if env in ENTRY_POINTS:
        presets = "".join(f" with {name}={value!r}" for name, value in gym.spec(env).kwargs.items())
        print(f"{env}: the task{presets}, and the options of all environments")
        for owner in (type(gym.make(env).unwrapped.task), TaskEnv, TaskVectorEnv):  # type: ignore[attr-defined]
            print(f"\n{owner.__name__}{inspect.signature(owner)}\n\n{inspect.getdoc(owner)}")
        return
    if env is not None:
        raise CommandError(f"{env!r} is not a bundled environment; choose from {', '.join(ENTRY_POINTS)}")
    names = ("id", "actions", "observation", "steps", "ends on success")
    table = Table(*names, box=SIMPLE, padding=(0, 1, 0, 0))
    table.columns[0].no_wrap = True
    for env_id in ENTRY_POINTS:
        made: Any = gym.make(env_id).unwrapped
        observation, goal = (made.task.observation_space[key] for key in ("observation", "desired_goal"))
        table.add_row(
            env_id,
            _short(made.action_space),
            _short(observation) if goal == observation else f"{_short(observation)} goal {_short(goal)}",
            str(made.max_steps),
            "yes" if made.terminate_on_success else "no",
        )
    Console().print(table)


def _short(space: gym.Space[Any]) -> str:
    """Return a short description of a space: its type and its size."""
    size = space.n if isinstance(space, gym.spaces.Discrete) else "x".join(map(str, space.shape or ()))
    return f"{type(space).__name__} {size}"
