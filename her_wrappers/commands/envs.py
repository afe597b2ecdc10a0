"""``her envs``: the bundled environments and their options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any

import gymnasium as gym
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tyro.conf import Positional, arg

from her_envs import TaskEnv, TaskVectorEnv
from her_envs.registration import ENTRY_POINTS
from her_wrappers.commands.terminal import CommandError


def envs(env: Positional[Annotated[str | None, arg(metavar="ENV")]] = None) -> None:
    """List the bundled environments, or show one environment with all its options.

    For example:

    - her envs
    - her envs her_envs/PointMaze-v0

    Args:
        env: Environment to show with all its options.
    """
    if env in ENTRY_POINTS:
        _show(env, type(gym.make(env).unwrapped.task))  # type: ignore[attr-defined] # a TaskEnv
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


def _show(env_id: str, task: type) -> None:
    """Print the docstring of a task, and a table of the options of the environment ``env_id``."""
    console = Console()
    summary, _, text = (inspect.getdoc(task) or "").split("\nArgs:")[0].partition("\n\n")
    console.print(f"[bold]{env_id}[/bold]: {task.__name__}\n\n{_styled(summary)}\n", highlight=False)
    facts = Table.grid(padding=(0, 2, 0, 0))  # of entries such as "State: ..."
    for name, fact in re.findall(r"^([A-Z][a-z ]+): (.*?)(?=^[A-Z][a-z ]+: |\Z)", text, re.S | re.M):
        facts.add_row(f"[bold]{name}[/bold]", _styled(fact))
    options = Table("option", "default", "meaning")
    presets = gym.spec(env_id).kwargs
    for owner in (task, TaskEnv, TaskVectorEnv):
        for name, default, meaning in _options(owner):
            if owner is TaskVectorEnv and name in inspect.signature(TaskEnv).parameters:
                continue
            where = " (make_vec)" if owner is TaskVectorEnv else ""
            value = presets.get(name, default)
            shown = str(value.value if isinstance(value, Enum) else value)  # as users write it
            options.add_row(name + where, escape(shown), _styled(meaning))
    console.print(facts)
    console.print()
    console.print(options)


def _options(owner: type) -> Iterator[tuple[str, Any, str]]:
    """Yield the name, the default and the documentation of each option of a class."""
    _, _, args = (inspect.getdoc(owner) or "").partition("\nArgs:\n")
    section = args.split("\n\n")[0] + "\n"
    meanings = dict(re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", section, re.S | re.M))
    for name, parameter in inspect.signature(owner).parameters.items():
        if name != "task":
            yield name, parameter.default, meanings[name]


def _styled(text: str) -> str:
    """Return the text of a docstring as one line, with the names in backticks colored."""
    return re.sub(r"`{1,2}([^`]+)`{1,2}", r"[cyan]\1[/cyan]", escape(" ".join(text.split())))


def _short(space: gym.Space[Any]) -> str:
    """Return a short description of a space: its type and its size."""
    size = space.n if isinstance(space, gym.spaces.Discrete) else "x".join(map(str, space.shape or ()))
    return f"{type(space).__name__} {size}"
