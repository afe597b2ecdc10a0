"""``her check-replay``: check a replay buffer through its adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from her_wrappers.commands.check import (
    Format,
    IgnoredCodes,
    ReportFormat,
    SelectedCodes,
    Strict,
    codes,
    exit_with_findings,
    write_report,
)
from her_wrappers.environments import import_module

if TYPE_CHECKING:
    from her_wrappers.conformance import ReplayAdapter

FORMS = "module:Adapter or path/to/file.py:Adapter, a subclass of her_wrappers.conformance.ReplayAdapter"


def check_replay(
    adapter: Annotated[str, typer.Argument(metavar="MODULE:ADAPTER", help="A subclass of ReplayAdapter.")],
    *,
    seed: Annotated[int, typer.Option(min=0, help="Seed of buffers and episodes.")] = 0,
    select: SelectedCodes = None,
    ignore: IgnoredCodes = None,
    output: ReportFormat = Format.TEXT,
    strict: Strict = False,
) -> None:
    """Check a HER replay buffer. Exit code 0: no errors, 1: errors, 2: wrong usage, 3: unusable adapter.

    For example:

    - `her check-replay my_buffer:MyAdapter`
    - `her check-replay her_wrappers.conformance.adapters.sb3:StableBaselines3 --format json`
    """
    from her_wrappers.conformance import check_replay as run_check

    try:
        report = run_check(_find_adapter(adapter), select=codes(select), ignore=codes(ignore), seed=seed)
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    write_report(report, output)
    if output is Format.TEXT:
        for gap in report.not_offered:
            typer.echo(f"not offered: {gap.reason} ({', '.join(gap.codes)})")
    exit_with_findings(report, strict=strict)


def _find_adapter(name: str) -> type[ReplayAdapter]:
    """Return the adapter class of a name such as ``"my_buffer:MyAdapter"``."""
    origin, colon, attribute = name.rpartition(":")
    if not colon:
        raise ValueError(f"expected {FORMS}, got {name!r}")
    module = import_module(origin, f"the adapter {name}", FORMS)
    if not hasattr(module, attribute):
        raise ValueError(f"{origin} has no class {attribute!r}; expected {FORMS}")
    from her_wrappers.conformance.check import require_adapter

    return require_adapter(getattr(module, attribute))
