"""``her compare``: compare groups of runs, in a figure and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from her_wrappers.commands.terminal import CommandError, NotNegative, Positive, exits_with
from her_wrappers.support.arguments import require_suffix


def compare(
    runs: Positional[Annotated[tuple[str, ...], arg(metavar="RUN")]],
    *,
    by: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="OPTION")] = (),
    threshold: float = 0.9,
    at: Positive | None = None,
    out: Annotated[tuple[Path, ...], arg(metavar="FILE")] = (),
    seed: NotNegative = 0,
) -> None:
    """Compare groups of runs: success rates, time to reach a success rate, and learning curves.

    A folder of runs is a group. Single runs are a group if their paths differ only in the seed at the end.

    For example:

    - her compare runs/with_her runs/without_her --out figure.pdf table.md
    - her compare "SAC=runs/a" "TQC=runs/b" --threshold 0.95 --at 100000
    - her compare runs/sweep --by agent.temperature --out sweep.png

    Args:
        runs: Run folders of `her train`, folders with TensorBoard logs of Stable-Baselines3, CSV files, or
            folders that contain such runs. NAME=PATH sets the name of a group.
        by: Option, such as agent.temperature; runs with the same value of this option are a group.
        threshold: Success rate; the steps and minutes until a run reaches it are compared.
        at: Number of steps after which success rates are compared; by default, the end of the shortest run.
        out: Files to write, by their suffixes: a figure (.pdf, .png, .svg) or the tables (.md).
        seed: Seed of the bootstrap, which computes the confidence intervals.
    """
    from her_agents.results.comparison import SUFFIXES
    from her_agents.results.comparison import compare as compare_runs
    from her_agents.training.run_logs import read_runs

    if not runs:
        raise CommandError("expected at least one run, got none; pass the folder of a run")
    with exits_with(2, ValueError):
        for path in out:
            require_suffix("--out", path, SUFFIXES)
    with exits_with(3, ValueError):
        logs = [log for run in runs for log in read_runs(run)]
    with exits_with(2, ValueError):
        comparison = compare_runs(*logs, by=by, threshold=threshold, at=at, seed=seed)
    print(comparison.text(), end="")
    for path in out:
        path.parent.mkdir(parents=True, exist_ok=True)
        comparison.write(path)
        print(f"written: {path}")
