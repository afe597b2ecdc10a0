"""``her doctor``: find out why a run does not learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from her_wrappers.commands import terminal
from her_wrappers.diagnosis import diagnose
from her_wrappers.diagnosis.html import write_page
from her_wrappers.diagnosis.targets import read_target


def doctor(
    target: Positional[Annotated[str, arg(metavar="TARGET")]],
    *,
    option: terminal.EnvOptions = (),
    max_steps: terminal.Positive = 3000,
    seed: terminal.NotNegative = 0,
    gamma: float | None = None,
    clip_targets: FlagCreatePairsOff[bool] = False,
    html: Path | None = None,
    reporting: terminal.Reporting = terminal.DEFAULT_REPORTING,
) -> int:
    """Find out why a run does not learn.

    For example:

    - her doctor runs/FetchPush-v4-ddpg-0 --html report.html
    - her doctor recorded/episodes --gamma 0.98
    - her doctor her_envs/PointMaze-v0 -o layout=large -o max_steps=10

    Args:
        target: Folder of her train, an archive, a saved buffer, or an environment.
        max_steps: Number of steps for which an environment is run.
        seed: Seed of the run of an environment.
        gamma: Discount per step; by default the discount of the run.
        clip_targets: Targets are clipped to the returns that rewards in [-1, 0] can have.
        html: File to write: a page with the report and pictures.
    """
    options = terminal.parse_options(option)
    select, ignore = reporting.prefixes()
    with terminal.exits_with(3, TypeError):
        facts = read_target(target, max_steps=max_steps, seed=seed, env_options=options)
    with terminal.exits_with(2, ValueError):
        report = diagnose(
            facts, gamma=gamma, clip_targets=clip_targets or None, seed=seed, select=select, ignore=ignore
        )
    if html is not None:
        write_page(html, report, facts)
    return reporting.finish(report)
