"""What the commands show: a bar while a training runs, and mistakes in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from her_wrappers import SinkError


def progress_display(console: Console) -> Progress:
    """Return a bar with the success rate, and the speeds of environments and learning.

    Its tasks have the fields ``success``, ``steps_per_s`` and ``updates_per_s``.
    """
    return Progress(
        TextColumn("{task.description:<11}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("success {task.fields[success]:.2f}"),
        TextColumn("{task.fields[steps_per_s]:,.0f} steps/s"),
        TextColumn("{task.fields[updates_per_s]:,.0f} updates/s"),
        TimeRemainingColumn(),
        console=console,
    )


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn an error about what a user asked for into its message.

    Raises:
        typer.Exit: There was one.
    """
    try:
        yield
    except (OSError, SinkError, TypeError, ValueError, typer.BadParameter) as error:
        text = error.message if isinstance(error, typer.BadParameter) else str(error)
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(text)}")
        raise typer.Exit(2) from error
