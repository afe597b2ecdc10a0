"""Exit codes of all commands, the message of exit code 3, and text that is safe to print."""

from __future__ import annotations

from typing import NoReturn

import typer

EXIT_CODES = {
    0: "no errors",
    1: "errors found",
    2: "wrong usage",
    3: "the environment or the data cannot be used",
    130: "ended by Ctrl-C",
}

EXIT_CODES_HELP = f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}."


def fail(message: str) -> NoReturn:
    """Print an error, and end the command with exit code 3.

    Raises:
        typer.Exit: Always.
    """
    typer.echo(f"Error: {printable(message)}", err=True)
    raise typer.Exit(3)


def printable(text: str) -> str:
    """Return a text with escaped control characters, so that it cannot control the terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
