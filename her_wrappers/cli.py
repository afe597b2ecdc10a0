"""The ``her`` command. It imports everything; nothing imports it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from her_wrappers.commands.check import check, explain, rules
from her_wrappers.commands.check_replay import check_replay
from her_wrappers.commands.envs import envs
from her_wrappers.commands.inspect import inspect
from her_wrappers.commands.play import play
from her_wrappers.commands.record import record
from her_wrappers.commands.reproduce import reproduce
from her_wrappers.commands.show_relabeling import show_relabeling
from her_wrappers.commands.terminal import EXIT_CODES_HELP
from her_wrappers.commands.train import train
from her_wrappers.commands.watch import watch

app = typer.Typer(
    no_args_is_help=True,
    epilog=EXIT_CODES_HELP,
    rich_markup_mode="markdown",  # or the examples, one a line, would have to be paragraphs
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
    envs,
    play,
    record,
    inspect,
    show_relabeling,
    train,
    watch,
):
    app.command(epilog=EXIT_CODES_HELP)(command)
app.add_typer(reproduce, name="reproduce", epilog=EXIT_CODES_HELP)
