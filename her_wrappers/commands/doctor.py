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
        target: A run folder of `her train`, an archive, a saved buffer, a LeRobot or Minari dataset, or an
            environment.
        max_steps: If the target is an environment, the number of steps for which it is run.
        seed: If the target is an environment, the seed with which it is run.
        gamma: Discount factor per step; by default that of the run, and unknown for other targets.
        clip_targets: Assume that the agent clips the targets of its critic to [-1 / (1 - gamma), 0]. Without
            this flag, the config of the run decides; for other targets, no clipping is assumed.
        html: HTML file to write, with the report and pictures.
    """
    options = terminal.parse_options(option)
    with terminal.exits_with(3, TypeError), reporting.alone():
        facts = read_target(target, max_steps=max_steps, seed=seed, env_options=options)
    with terminal.exits_with(2, ValueError):
        report = diagnose(
            facts, gamma=gamma, clip_targets=clip_targets or None, seed=seed, **reporting.prefixes()
        )
    if html is not None:
        write_page(html, report, facts)
    return reporting.finish(report)
