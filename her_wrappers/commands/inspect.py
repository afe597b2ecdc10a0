"""``her inspect``: a summary of an archive."""

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
from her_wrappers.commands.terminal import printable
from her_wrappers.recording.archive import EpisodeArchive

if TYPE_CHECKING:
    from her_wrappers.commands.archive_summary import Range, Summary


def inspect(
    archive: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of an archive.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show episodes, lengths, returns, success and goals of an archive. All files are read and validated.

    Goals are counted in cells: ten along each axis, or one per value for integers.

    For example:

    - `her inspect runs/reach`
    - `her inspect runs/reach --json`
    """
    episodes = EpisodeArchive(archive)
    summary = summarize(episodes)
    if as_json:
        typer.echo(json.dumps(_finite(_as_json(episodes, summary)), indent=1, allow_nan=False))
    else:
        Console().print(_as_table(episodes, summary))


def _as_json(archive: EpisodeArchive, summary: Summary) -> dict[str, Any]:
    source = None if archive.source is None else asdict(archive.source)
    return {"archive": str(archive.path), "source": source, "versions": archive.versions, **asdict(summary)}


def _finite(value: Any) -> Any:
    """Return a value with None for NaN and infinite numbers, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_table(archive: EpisodeArchive, summary: Summary) -> Table:
    table = Table(box=SIMPLE, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")  # users copy long paths
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
    text = ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
    return f"{source.env_id or source.env_class}{f' ({text})' if text else ''}"


def _spread(numbers: Range) -> str:
    return f"{numbers.least:,.5g} to {numbers.most:,.5g}, {numbers.mean:,.5g} on average"
