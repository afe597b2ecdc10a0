"""``her inspect``: a summary of an archive."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import Positional, arg

from her_wrappers.commands.terminal import printable
from her_wrappers.data.trees import NUMBERS
from her_wrappers.recording.archive import EpisodeArchive


def inspect(archive: Positional[Annotated[Path, arg(metavar="FOLDER")]]) -> None:
    """Show episodes, lengths, returns and success of an archive. All files are read and validated.

    For example:

    - her inspect runs/reach

    Args:
        archive: Folder of the archive.
    """
    episodes = EpisodeArchive(archive)
    found = summarize(episodes)
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
    for name, value in lines.items():
        print(f"{name:<13} {printable(value)}")


def summarize(archive: EpisodeArchive) -> dict[str, Any]:
    """Return counts, ranges and rates of all episodes.

    ``success`` and ``success_once`` are None if the flag of a step is missing. Without episodes, the only
    keys are ``episodes`` and ``steps``.
    """
    columns: dict[str, list[np.ndarray]] = defaultdict(list)
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
    return found | rates
