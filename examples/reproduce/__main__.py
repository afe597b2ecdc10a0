"""Reproduce the figures of the papers: ``python -m examples.reproduce bitflip``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from examples.reproduce import bitflip, fetch, reach, strategies
from examples.reproduce.pool import usable_cores
from examples.reproduce.study import Study, reproduce
from examples.results import command_line
from examples.training.display import one_sentence

console = Console()

PUBLISHED, LOOKED_AT = Path("docs/results"), Path("runs/reproduce")

Seeds = Annotated[
    int | None, typer.Option(min=1, help="Seeds 0, 1, ... of each arm. [default: 3, or 1 with --quick]")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes side by side. [default: one for each core]")]
Quick = Annotated[bool, typer.Option("--quick", help="A look in a minute or two: fewer arms, one seed.")]
Out = Annotated[
    Path | None,
    typer.Option(
        file_okay=False,
        help=f"Folder for CSV, PNG and Markdown. [default: {PUBLISHED}, or {LOOKED_AT} with --quick]",
    ),
]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Reproduce figures of the papers on HER. Interrupted studies go on where they were.",
)


@app.command("bitflip")
def do_bitflip(quick: Quick = False, seeds: Seeds = None, jobs: Jobs = None, out: Out = None) -> None:
    """Success of DQN against the number of bits, with and without HER: figure 1 of the HER paper.

    For example:

    - `python -m examples.reproduce bitflip --quick`
    - `python -m examples.reproduce bitflip --jobs 2`: about 20 minutes
    """
    _reproduce(bitflip.make_study, quick, seeds, jobs, out)


@app.command("strategies")
def do_strategies(quick: Quick = False, seeds: Seeds = None, jobs: Jobs = None, out: Out = None) -> None:
    """Which goals to relabel with, and how many, on PointPush: figure 6 of the HER paper.

    For example:

    - `python -m examples.reproduce strategies --quick`
    - `python -m examples.reproduce strategies --seeds 5 --out runs/five`
    """
    _reproduce(strategies.make_study, quick, seeds, jobs, out)


@app.command("reach")
def do_reach(quick: Quick = False, seeds: Seeds = None, jobs: Jobs = None, out: Out = None) -> None:
    """DDPG, TD3 and SAC on three tasks of a point, with and without HER, sparse and dense rewards.

    For example:

    - `python -m examples.reproduce reach --quick`
    - `python -m examples.reproduce reach --jobs 2`: about 25 minutes
    """
    _reproduce(reach.make_study, quick, seeds, jobs, out)


@app.command("fetch")
def do_fetch(
    push: Annotated[bool, typer.Option("--push", help="FetchPush-v4 instead, which takes a night.")] = False,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
) -> None:
    """SAC on FetchReach-v4, with and without HER; needs `pip install "her-toolkit[fetch]"`.

    For example:

    - `python -m examples.reproduce fetch`
    - `python -m examples.reproduce fetch --push --seeds 2`: overnight
    """
    _reproduce(partial(fetch.make_study, push=push), quick, seeds, jobs, out)


def _reproduce(
    make_study: Callable[..., Study], quick: bool, seeds: int | None, jobs: int | None, out: Path | None
) -> None:
    """Do a study, and end with what a shell expects.

    Raises:
        typer.Exit: Ctrl-C, or a run came to nothing.
    """
    command = command_line("examples.reproduce", sys.argv[1:])
    folder = out or (LOOKED_AT if quick else PUBLISHED)
    try:
        with one_sentence():
            study = make_study(seeds or (1 if quick else 3), quick=quick)
            failures = reproduce(study, folder, jobs or usable_cores(), command, console)
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. What has ended is in {folder}; the same command goes on.", soft_wrap=True
        )
        raise typer.Exit(130) from None
    if failures:
        console.print("[bold red]error:[/] these runs came to nothing; the same command tries them again:")
        for failure in failures:
            console.print(f"{failure.run}: {failure.reason}", soft_wrap=True, highlight=False, markup=False)
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
