"""``her inspect``: what an archive holds."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from her_wrappers.commands.archive_summary import summarize
from her_wrappers.commands.terminal import fail, printable
from her_wrappers.recording.archive import EpisodeArchive

if TYPE_CHECKING:
    from her_wrappers.commands.archive_summary import Range, Summary


def inspect(
    archive: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of an archive.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show what an archive holds: episodes, lengths, returns, success, goals. All of it is read and checked.

    Goals are sorted into cells: ten along each axis, or one a value for whole numbers.

    For example:

    - `her inspect runs/reach`
    - `her inspect runs/reach --json`
    """
    episodes, summary = _read(archive)
    if as_json:
        typer.echo(json.dumps(_finite(_as_json(episodes, summary)), indent=1, allow_nan=False))
    else:
        Console().print(_as_table(episodes, summary))


def _read(path: Path) -> tuple[EpisodeArchive, Summary]:
    try:
        archive = EpisodeArchive(path)
        return archive, summarize(archive)
    except (OSError, ValueError) as error:
        fail(f"cannot inspect {path}: {error}")


def _as_json(archive: EpisodeArchive, summary: Summary) -> dict[str, Any]:
    source = None if archive.source is None else asdict(archive.source)
    return {"archive": str(archive.path), "source": source, "versions": archive.versions, **asdict(summary)}


def _finite(value: Any) -> Any:
    """Return JSON with null for numbers that JSON has not: NaN and the infinite ones."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_table(archive: EpisodeArchive, summary: Summary) -> Table:
    table = Table(box=SIMPLE, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")  # long paths are to be copied
    for name, value in _lines(archive, summary).items():
        table.add_row(name, escape(printable(value)))
    return table


def _lines(archive: EpisodeArchive, summary: Summary) -> dict[str, str]:
    lines = {"archive": str(archive.path), "environment": _environment(archive)}
    lines["episodes"] = f"{summary.episodes:,} of {summary.steps:,} steps"
    if summary.lengths is not None and summary.returns is not None:
        lines["length"] = _spread(summary.lengths)
        lines["return"] = _spread(summary.returns)
        lines["ends"] = f"{summary.terminated:.1%} terminated, {summary.truncated:.1%} truncated"
        lines["success"] = (
            "is_success was not recorded" if summary.success is None else f"{summary.success:.1%}"
        )
    if summary.goals is not None:
        goals = summary.goals
        lines["goals"] = (
            f"{goals.covered:.1%} of {goals.desired:,} desired cells achieved; "
            f"{goals.achieved:,} cells achieved in all"
        )
    return lines


def _environment(archive: EpisodeArchive) -> str:
    if archive.source is None:
        return "unknown"
    source = archive.source
    options = {name: json.dumps(value) for name, value in source.kwargs.items()} | source.kwargs_as_text
    told = ", ".join(f"{name}={text}" for name, text in sorted(options.items()))
    return f"{source.env_id or source.env_class}{f' ({told})' if told else ''}"


def _spread(numbers: Range) -> str:
    return f"{numbers.least:,.5g} to {numbers.most:,.5g}, {numbers.mean:,.5g} on average"
