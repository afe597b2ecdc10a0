"""``her doctor``: find out why a training does not learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from her_wrappers.commands.check import (
    Format,
    IgnoredCodes,
    ReportFormat,
    SelectedCodes,
    Strict,
    codes,
    finish,
)
from her_wrappers.commands.make import EnvOptions, parse_options, usage_errors
from her_wrappers.commands.terminal import fail


def doctor(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="Folder of her train, an archive, a saved buffer, or an environment."
        ),
    ],
    *,
    option: EnvOptions = None,
    steps: Annotated[
        int, typer.Option(min=1, help="Number of steps for which an environment is run.")
    ] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run of an environment.")] = 0,
    gamma: Annotated[
        float | None, typer.Option(min=0, max=1, help="Discount per step. By default that of the training.")
    ] = None,
    clip_targets: Annotated[
        bool, typer.Option("--clip-targets", help="Targets are clipped to returns of rewards in [-1, 0].")
    ] = False,
    select: SelectedCodes = None,
    ignore: IgnoredCodes = None,
    output: ReportFormat = Format.TEXT,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the report and pictures.", metavar="FILE")
    ] = None,
    strict: Strict = False,
) -> None:
    """Find out why a training does not learn. Exit code 0: no errors, 1: errors, 2: wrong usage, 3: bad data.

    For example:

    - `her doctor runs/FetchPush-v4-ddpg-0 --html report.html`
    - `her doctor recorded/episodes --gamma 0.98`
    - `her doctor her_envs/PointMaze-v0 -o layout=large -o max_steps=10`
    """
    from her_wrappers.diagnosis import DIAGNOSIS_RULES
    from her_wrappers.diagnosis.diagnose import judge
    from her_wrappers.diagnosis.targets import read_target

    options = parse_options(option)
    try:
        rules = DIAGNOSIS_RULES.select(codes(select), codes(ignore))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        facts = read_target(target, max_steps=steps, seed=seed, env_options=options)
    except TypeError as error:  # the target cannot be used
        fail(str(error))
    facts = facts.with_options(gamma=gamma, clip_targets=clip_targets or None)
    report = judge(facts, rules, seed=seed)
    if html is not None:
        from her_wrappers.diagnosis.html import write_page

        with usage_errors():
            write_page(html, report, facts)
    finish(report, output, strict=strict)
