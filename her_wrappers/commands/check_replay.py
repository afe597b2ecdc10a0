"""``her check-replay``: check a replay buffer by its adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from her_wrappers.checker.display import print_report
from her_wrappers.commands.check import Format, codes, console, exit_with, reject
from her_wrappers.commands.terminal import fail
from her_wrappers.conformance.check import check_replay as run_check
from her_wrappers.conformance.check import require_adapter
from her_wrappers.environments import BrokenModuleError, import_origin, present_folder

if TYPE_CHECKING:
    from her_wrappers.conformance import ReplayAdapter

FORMS = "module:Adapter or path/to/file.py:Adapter, a subclass of her_wrappers.conformance.ReplayAdapter"


def check_replay(
    adapter: Annotated[str, typer.Argument(metavar="MODULE:ADAPTER", help="A subclass of ReplayAdapter.")],
    *,
    seed: Annotated[int, typer.Option(min=0, help="Seed of buffers and episodes.")] = 0,
    select: Annotated[
        list[str] | None, typer.Option(help="Report these codes only; HB1 means all of HB1xx.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Do not report these codes.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the report.")] = Format.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings and notes fail too.")] = False,
) -> None:
    """Check a replay buffer that relabels in hindsight. Exit code 0: clean, 1: findings, 2: wrong usage.

    For example:

    - `her check-replay my_buffer:MyAdapter`
    - `her check-replay her_wrappers.conformance.adapters.sb3:StableBaselines3 --format json`
    """
    try:
        report = run_check(find_adapter(adapter), select=codes(select), ignore=codes(ignore), seed=seed)
    except BrokenModuleError as error:
        fail(str(error))
    except (TypeError, ValueError) as error:
        reject(error)
    if output is Format.JSON:
        typer.echo(report.json())
    elif output is Format.GITHUB:
        typer.echo(report.github())
    else:
        terminal = console()
        print_report(report, terminal)
        for gap in report.not_offered:
            terminal.print(f"[dim]not offered:[/] {escape(gap.reason)} ({', '.join(gap.codes)})")
    exit_with(int(bool(report.findings if strict else report.of_severity("error"))))


def find_adapter(name: str) -> type[ReplayAdapter]:
    """Return the adapter class of a name such as ``"my_buffer:MyAdapter"``.

    Raises:
        BrokenModuleError: The module raises an error.
        TypeError: The name is not that of an adapter class.
        ValueError: The module or the class does not exist.
    """
    origin, colon, attribute = name.rpartition(":")
    if not colon:
        raise ValueError(f"expected {FORMS}, got {name!r}")
    with present_folder():
        module = import_origin(origin, name, FORMS)
    if not hasattr(module, attribute):
        raise ValueError(f"{origin} has no class {attribute!r}; expected {FORMS}")
    return require_adapter(getattr(module, attribute))
