"""``her reproduce``: reproduce figures of papers on HER."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from her_wrappers.commands.make import usage_errors

if TYPE_CHECKING:
    from her_agents.studies.study import Study

console = Console()

PUBLISHED, QUICK = Path("docs/results"), Path("runs/reproduce")

Seeds = Annotated[
    int | None,
    typer.Option(min=1, help="Number of seeds of each variant. [default: 3, or 1 with --quick]", metavar="N"),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Parallel processes. [default: one for each core; recipe, ablation: one for two]",
        metavar="N",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="A short version, about two minutes: fewer variants, one seed.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        file_okay=False,
        help=f"Folder for CSV, PNG and Markdown. [default: {PUBLISHED}, or {QUICK} with --quick]",
        metavar="FOLDER",
    ),
]
Backend = Annotated[
    str, typer.Option(help="Where trainings run: process, or ray for a Ray cluster.", metavar="NAME")
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of a Ray cluster. By default RAY_ADDRESS; without it, Ray starts here.",
        metavar="HOST:PORT",
    ),
]

reproduce = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Reproduce figures of the papers on HER. The same command continues an interrupted study.",
)


@reproduce.command("bitflip")
def reproduce_bitflip(
    *,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
    backend: Backend = "process",
    address: Address = None,
) -> None:
    """Success of DQN against the number of bits, with and without HER: figure 1 of the HER paper.

    For example:

    - `her reproduce bitflip --quick`
    - `her reproduce bitflip --jobs 2`: about 20 minutes
    """
    with usage_errors():
        from her_agents.studies import bitflip
    _run(bitflip.make_study, quick, seeds, jobs, out, backend=backend, address=address)


@reproduce.command("strategies")
def reproduce_strategies(
    *,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
    backend: Backend = "process",
    address: Address = None,
) -> None:
    """Goal selection strategies and numbers of relabeled goals, on PointPush: figure 6 of the HER paper.

    For example:

    - `her reproduce strategies --quick`
    - `her reproduce strategies --seeds 5 --out runs/five`
    """
    with usage_errors():
        from her_agents.studies import strategies
    _run(strategies.make_study, quick, seeds, jobs, out, backend=backend, address=address)


@reproduce.command("reach")
def reproduce_reach(
    *,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
    backend: Backend = "process",
    address: Address = None,
) -> None:
    """DDPG, TD3 and SAC on three point tasks, with and without HER, with sparse and dense rewards.

    For example:

    - `her reproduce reach --quick`
    - `her reproduce reach --jobs 2`: about 25 minutes
    """
    with usage_errors():
        from her_agents.studies import reach
    _run(reach.make_study, quick, seeds, jobs, out, backend=backend, address=address)


@reproduce.command("fetch")
def reproduce_fetch(
    *,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
    backend: Backend = "process",
    address: Address = None,
) -> None:
    """SAC on FetchReach-v4, with and without HER; needs `pip install "her-toolkit[fetch]"`.

    For example:

    - `her reproduce fetch`
    - `her reproduce fetch --seeds 5`
    """
    with usage_errors():
        from her_agents.studies import fetch
    _run(fetch.make_study, quick, seeds, jobs, out, backend=backend, address=address)


@reproduce.command("recipe")
def reproduce_recipe(
    name: Annotated[str, typer.Argument(help="A recipe; `her train --recipes` lists them.")],
    *,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
    backend: Backend = "process",
    address: Address = None,
) -> None:
    """Trainings of a recipe: steps and minutes until the task is solved, and the final success rates.

    An interrupted training continues from its checkpoints in runs/recipes. Each training uses two cores: one
    for the agent, and one for the worker that collects episodes.

    For example:

    - `her reproduce recipe fetch_reach`
    - `her reproduce recipe fetch_push --seeds 5 --jobs 1`
    """
    with usage_errors():
        from her_agents.studies import recipes
        from her_agents.studies.run_all import usable_cores
    jobs = jobs or max(1, usable_cores() // 2)
    _run(partial(recipes.make_study, name=name), quick, seeds, jobs, out, backend=backend, address=address)


@reproduce.command("ablation")
def reproduce_ablation(
    *,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
    backend: Backend = "process",
    address: Address = None,
) -> None:
    """A reference similar to the recipe fetch_push, and variants of it that differ in one option each.

    An interrupted training continues from its checkpoints in runs/ablation. Each training uses two cores.

    For example:

    - `her reproduce ablation --seeds 1 --jobs 1`: about three hours
    """
    with usage_errors():
        from her_agents.studies import ablation
        from her_agents.studies.run_all import usable_cores
    jobs = jobs or max(1, usable_cores() // 2)
    _run(ablation.make_study, quick, seeds, jobs, out, backend=backend, address=address)


def _run(
    make_study: Callable[..., Study],
    quick: bool,
    seeds: int | None,
    jobs: int | None,
    out: Path | None,
    *,
    backend: str,
    address: str | None,
) -> None:
    """Run a study; exit with code 130 after Ctrl-C, and with code 1 if a run failed."""
    from her_agents.studies import study
    from her_agents.studies.run_all import usable_cores

    folder = out or (QUICK if quick else PUBLISHED)
    try:
        with usage_errors():
            chosen = make_study(seeds or (1 if quick else 3), quick=quick)
            command = shlex.join(["her", *sys.argv[1:]])
            failures = study.reproduce(
                chosen, folder, jobs or usable_cores(), command, console, backend=backend, address=address
            )
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. Completed runs are in {folder}; the same command continues.", soft_wrap=True
        )
        raise typer.Exit(130) from None
    if failures:
        console.print("[bold red]error:[/] these runs failed; run the same command to try them again:")
        for failure in failures:
            console.print(f"{failure.run}: {failure.reason}", soft_wrap=True, highlight=False, markup=False)
        raise typer.Exit(1)
