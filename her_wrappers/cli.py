"""The ``her`` command. This module imports all commands; no other module of the package imports this one."""

from __future__ import annotations

import platform
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from typer.core import TyperGroup

from her_wrappers.checker.exceptions import describe, raised_at
from her_wrappers.commands.check import check, explain, rules
from her_wrappers.commands.check_replay import check_replay
from her_wrappers.commands.doctor import doctor
from her_wrappers.commands.envs import envs
from her_wrappers.commands.inspect import inspect
from her_wrappers.commands.play import play
from her_wrappers.commands.record import record
from her_wrappers.commands.show_relabeling import show_relabeling
from her_wrappers.commands.terminal import EXIT_CODES_HELP, fail
from her_wrappers.commands.train import train
from her_wrappers.commands.watch import watch
from her_wrappers.environments import BrokenModuleError, EnvNameError

GYMNASIUM = Path(gym.__file__).parent

EXPLAINED = (BrokenModuleError, gym.error.DependencyNotInstalled)
"""Errors whose messages are complete, so that the file and line that raised are not added."""


class _Commands(TyperGroup):
    """Group of all commands. Errors in the user's code or data end a command with exit code 3."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the user chose."""
        usage_error = typer.BadParameter.__base__
        try:
            return super().invoke(ctx)
        except (usage_error, typer.Exit, typer.Abort):  # type: ignore[misc] # a class of click
            raise
        except EnvNameError as error:
            raise typer.BadParameter(str(error)) from error
        except (Exception, SystemExit) as error:
            if _is_unread_output(error):
                raise
            place = "" if isinstance(error, EXPLAINED) else raised_at(error)
            if place:
                notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
                fail(f"{describe(error)}; {place}{notes}")
            if isinstance(error, (*EXPLAINED, OSError, ValueError)):
                fail(str(error))
            if Path(traceback.extract_tb(error.__traceback__)[-1].filename).is_relative_to(GYMNASIUM):
                fail(describe(error))
            raise  # a defect of the toolkit, whose report needs the traceback


def _is_unread_output(error: BaseException) -> bool:
    """Whether the reader of the output has left the pipe; Rich then raises SystemExit."""
    cause = error.__context__ if isinstance(error, SystemExit) else error
    return isinstance(cause, BrokenPipeError) and not raised_at(cause)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    epilog=EXIT_CODES_HELP,
    rich_markup_mode="markdown",  # keeps lists of examples as lists
    context_settings={"help_option_names": ["-h", "--help"]},
)

REPORTED = ("her-toolkit", "gymnasium", "numpy", "torch", "pygame-ce", "pygame", "stable-baselines3")


def _show_versions(wanted: bool) -> None:
    if not wanted:
        return
    for name in REPORTED:
        try:
            typer.echo(f"{name} {version(name)}")
        except PackageNotFoundError:
            typer.echo(f"{name} not installed")
    typer.echo(f"python {platform.python_version()} on {platform.platform()}")
    raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    show_versions: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_versions,
            is_eager=True,
            help="Show the versions that a bug report needs, and exit.",
        ),
    ] = False,
) -> None:
    """Hindsight Experience Replay for any Gymnasium goal environment."""


for command in (
    check,
    check_replay,
    rules,
    explain,
    doctor,
    envs,
    play,
    record,
    inspect,
    show_relabeling,
    train,
    watch,
):
    app.command(epilog=EXIT_CODES_HELP)(command)
