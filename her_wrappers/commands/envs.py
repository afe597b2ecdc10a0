"""``her envs``: the bundled environments and their options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from her_envs import TaskEnv, TaskVectorEnv
from her_envs.registration import ENTRY_POINTS
from her_wrappers.environments import make_env


def envs(
    env_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Environment to show with all its options.")
    ] = None,
) -> None:
    """List the bundled environments, or show one environment with all its options.

    For example:

    - `her envs`
    - `her envs her_envs/PointMaze-v0`
    """
    console = Console()
    if env_id is None:
        console.print(_table_of_all())
        return
    task = type(_make(env_id).task)
    summary, facts = _description(task)
    console.print(f"[bold]{env_id}[/bold]: {task.__name__}\n\n{_styled(summary)}\n", highlight=False)
    console.print(facts)
    console.print()
    console.print(_table_of_options(env_id, task))


def _make(env_id: str) -> TaskEnv:
    env = make_env(env_id).unwrapped if env_id in ENTRY_POINTS else None
    if not isinstance(env, TaskEnv):
        raise typer.BadParameter(f"unknown id {env_id!r}; choose from {', '.join(map(repr, ENTRY_POINTS))}")
    return env


def _table_of_all() -> Table:
    table = Table(
        "id", "actions", "observation", "steps", "ends on success", box=SIMPLE, padding=(0, 1, 0, 0)
    )
    table.columns[0].no_wrap = True
    for env_id in ENTRY_POINTS:
        env = _make(env_id)
        observation, goal = (env.task.observation_space[key] for key in ("observation", "desired_goal"))
        table.add_row(
            env_id,
            _short(env.action_space),
            _short(observation) if goal == observation else f"{_short(observation)} goal {_short(goal)}",
            str(env.max_steps),
            "yes" if env.terminate_on_success else "no",
        )
    return table


def _table_of_options(env_id: str, task: type) -> Table:
    table = Table("option", "default", "meaning")
    presets = gym.spec(env_id).kwargs
    for owner in (task, TaskEnv, TaskVectorEnv):
        for name, default, meaning in _options(owner):
            if owner is TaskVectorEnv and name in inspect.signature(TaskEnv).parameters:
                continue
            where = " (make_vec)" if owner is TaskVectorEnv else ""
            table.add_row(name + where, _default(presets.get(name, default)), _styled(meaning))
    return table


def _options(owner: type) -> Iterator[tuple[str, Any, str]]:
    """Yield the name, the default and the documentation of each option of a class."""
    _, _, args = (inspect.getdoc(owner) or "").partition("\nArgs:\n")
    section = args.split("\n\n")[0] + "\n"
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", section, re.DOTALL | re.MULTILINE)
    meanings = {name: " ".join(text.split()) for name, text in entries}
    for name, parameter in inspect.signature(owner).parameters.items():
        if name != "task":
            yield name, parameter.default, meanings[name]


def _description(task: type) -> tuple[str, Table]:
    """Return the first line of a docstring, and a table of its entries such as ``State: ...``."""
    summary, _, text = (inspect.getdoc(task) or "").split("\nArgs:")[0].partition("\n\n")
    facts = Table.grid(padding=(0, 2, 0, 0))
    for name, fact in re.findall(
        r"^([A-Z][a-z ]+): (.*?)(?=^[A-Z][a-z ]+: |\Z)", text, re.DOTALL | re.MULTILINE
    ):
        facts.add_row(f"[bold]{name}[/bold]", _styled(" ".join(fact.split())))
    return summary, facts


def _styled(text: str) -> str:
    """Return the text of a docstring for the terminal, with the code in it colored."""
    return re.sub(r"`{1,2}([^`]+)`{1,2}", r"[cyan]\1[/cyan]", escape(text))


def _default(value: Any) -> str:
    """Return a default in the form in which users can write it."""
    return escape(str(value.value if isinstance(value, Enum) else value))


def _short(space: gym.Space[Any]) -> str:
    """Return a short description of a space: its type and its size."""
    size = space.n if isinstance(space, gym.spaces.Discrete) else "x".join(map(str, space.shape or ()))
    return f"{type(space).__name__} {size}"
