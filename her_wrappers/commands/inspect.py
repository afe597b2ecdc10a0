"""``her inspect``: a summary of an archive, with the coverage of its goals."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tyro.conf import Positional, arg

from her_wrappers.commands.terminal import printable
from her_wrappers.data.trees import NUMBERS, STRINGS, leaf_arrays
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.recording.archive import EpisodeArchive

if TYPE_CHECKING:
    from her_wrappers.recording.episodes import Episodes

CELLS = 10
"""Number of cells along each axis of float goals. For other goals, each distinct goal is a cell."""


def inspect(
    archive: Positional[Annotated[Path, arg(metavar="FOLDER")]],
    *,
    as_json: Annotated[bool, arg(name="json"), tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Show episodes, lengths, returns, success and goals of an archive. All files are read and validated.

    Goals in the same cell are counted as one goal. Float goals have ten cells along each axis; for other
    goals, each distinct goal is a cell.

    For example:

    - her inspect runs/reach
    - her inspect runs/reach --json

    Args:
        archive: Folder of the archive.
        as_json: Print JSON instead of a table.
    """
    episodes = EpisodeArchive(archive)
    found = summarize(episodes)
    if as_json:
        recorded = None if episodes.source is None else asdict(episodes.source)
        content = {"archive": str(archive), "source": recorded, "versions": episodes.versions}
        text = json.dumps(content | found)
        print(json.dumps(json.loads(text, parse_constant=lambda name: None), indent=1))  # JSON has no NaN
        return
    environment = "unknown"
    if (source := episodes.source) is not None:
        options = {name: json.dumps(value) for name, value in source.kwargs.items()} | source.kwargs_as_text
        text = ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
        environment = f"{source.env_id or source.env_class}{f' ({text})' if text else ''}"
    lines = {"archive": str(archive), "environment": environment}
    lines["episodes"] = "{episodes:,} of {steps:,} steps".format_map(found)
    if found["episodes"]:
        for name in ("length", "return"):
            numbers = "{least:,.5g} to {most:,.5g}, {mean:,.5g} on average"
            lines[name] = numbers.format_map(found[f"{name}s"])
        lines["ends"] = "{terminated:.1%} terminated, {truncated:.1%} truncated".format_map(found)
        lines["success"] = "is_success was not recorded"
        if found["success"] is not None:
            lines["success"] = "{success:.1%} in the last step, {success_once:.1%} once".format_map(found)
        if found["goals"] is not None:
            cells = "{covered:.1%} of {desired:,} desired cells achieved; {achieved:,} cells achieved in all"
            lines["goals"] = cells.format_map(found["goals"])
    table = Table(box=SIMPLE, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")  # users copy long paths
    for name, value in lines.items():
        table.add_row(name, escape(printable(value)))
    Console().print(table)


def summarize(archive: EpisodeArchive) -> dict[str, Any]:
    """Return a summary of all episodes, with the keys of ``her inspect --json``.

    ``success`` and ``success_once`` are None if the flag of a step is missing, ``goals`` is None if
    observations have no goals. Without episodes, the only keys are ``episodes`` and ``steps``.
    """
    columns: dict[str, list[np.ndarray]] = defaultdict(list)
    has_goals = True
    for batch in archive.iter_shards():
        columns["lengths"].append(batch.lengths.astype(np.float64))
        with np.errstate(all="ignore"):  # rewards may be infinite
            columns["returns"].append(np.add.reduceat(batch.rewards.astype(np.float64), batch.ends[:-1]))
        columns["terminated"].append(batch.terminated)
        columns["truncated"].append(batch.truncated)
        flags = batch.infos.get("is_success")
        if flags is None or flags.size != len(flags) or flags.dtype.kind not in NUMBERS:
            flags = np.full(int(batch.ends[-1]), np.nan)
        flags = flags.reshape(-1).astype(np.float64)
        columns["success"].append(flags[batch.ends[1:] - 1])
        columns["success_once"].append(np.maximum.reduceat(flags, batch.ends[:-1]))
        observations = batch.observations
        has_goals &= isinstance(observations, dict) and {*OBSERVATION_KEYS} <= observations.keys()
    found: dict[str, Any] = {"episodes": len(archive), "steps": archive.num_steps}
    if not columns:
        return found
    for name, parts in columns.items():
        values = np.concatenate(parts)
        with np.errstate(all="ignore"):
            found[name] = mean = float(values.mean())
            if name in {"lengths", "returns"}:
                found[name] = {"least": float(values.min()), "mean": mean, "most": float(values.max())}
    rates = {name: None if np.isnan(found[name]) else found[name] for name in ("success", "success_once")}
    return found | rates | {"goals": goal_coverage(archive) if has_goals else None}


def goal_coverage(archive: EpisodeArchive) -> dict[str, Any] | None:
    """Return the numbers of cells with ``desired`` and ``achieved`` goals, and the share ``covered``.

    ``covered`` is the share of the cells with desired goals that also have achieved goals, of any episodes.
    """
    low, high = np.full(1, np.inf), np.full(1, -np.inf)  # minimum and maximum of each component
    for batch in archive.iter_shards():
        if (goals := _goals(batch)) is None:
            return None
        if goals.dtype.kind == "f":
            finite = np.where(np.isfinite(goals), goals, np.nan)
            low, high = np.fmin(low, np.fmin.reduce(finite)), np.fmax(high, np.fmax.reduce(finite))
    cells: tuple[set[int], set[int]] = (set(), set())
    for batch in archive.iter_shards():
        goals = np.asarray(_goals(batch))
        if goals.dtype.kind == "f":
            with np.errstate(all="ignore"):
                places = np.floor((goals - low) / np.where(high > low, high - low, 1) * CELLS)
            goals = np.nan_to_num(places, nan=-1).clip(-1, CELLS - 1).astype(np.int8)
        for known, rows in zip(cells, np.split(goals, 2), strict=True):
            # The text of a row, not its bytes, since the width of strings depends on the batch.
            known.update(hash(repr(row)) for row in np.unique(rows, axis=0).tolist())
    desired, achieved = cells
    shared = len(desired & achieved)
    return {"desired": len(desired), "achieved": len(achieved), "covered": shared / len(desired)}


def _goals(batch: Episodes) -> np.ndarray | None:
    """Return N desired goals, then N achieved goals, (2 N, G); None if they are empty or differ in shape."""
    trees = [leaf_arrays(batch.observations[name]) for name in ("desired_goal", "achieved_goal")]
    desired, achieved = ([(leaf.shape, leaf.dtype.kind in STRINGS) for leaf in leaves] for leaves in trees)
    if desired != achieved or not all(trees) or not all(leaf.size for leaf in trees[0]):
        return None
    rows = [[leaf.reshape(len(leaf), -1) for leaf in leaves] for leaves in trees]
    return np.concatenate([np.concatenate(parts, axis=1) for parts in rows])
