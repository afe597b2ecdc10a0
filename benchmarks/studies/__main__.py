"""Figures of papers on HER, and the measured results of the recipes.

For example:

    python -m benchmarks.studies bitflip --quick               a short version
    python -m benchmarks.studies reach --jobs 2                about 25 minutes
    python -m benchmarks.studies strategies --seeds 5 --out runs/five
    python -m benchmarks.studies recipe fetch_push --jobs 1
    python -m benchmarks.studies ablation --seeds 1            about three hours

The studies:

    bitflip       success of DQN against the number of bits: figure 1 of the HER paper
    strategies    goal selection strategies on PointPush: figure 6 of the HER paper
    reach         DDPG, TD3 and SAC on three point tasks, with sparse and dense rewards
    recipe NAME   steps and minutes until a recipe solves its task; `her train --recipes` lists the names
    ablation      a reference similar to the recipe fetch_push, and variants that differ in one option each

The same command continues an interrupted study. Runs of recipe and ablation also continue from their
checkpoints, in runs/recipes and runs/ablation, and use two cores each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.result_page import PUBLISHED, command_line, count
from benchmarks.studies import ablation, bitflip, reach, recipes, strategies, study
from benchmarks.studies.run_all import usable_cores

QUICK_RESULTS = Path("runs/reproduce")

STUDIES: dict[str, Callable[..., study.Study]] = {
    "bitflip": bitflip.make_study,
    "strategies": strategies.make_study,
    "reach": reach.make_study,
    "recipe": recipes.make_study,
    "ablation": ablation.make_study,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute a study; return the exit code: 1 if a run failed, 2 for wrong usage, 130 after Ctrl-C."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("study", choices=STUDIES, metavar="STUDY", help=f"one of {', '.join(STUDIES)}")
    add("name", nargs="?", metavar="NAME", help="name of the recipe, for the study recipe only")
    add("--quick", action="store_true", help="a short version, about two minutes: fewer variants, one seed")
    add("--seeds", type=count, metavar="N", help="seeds of each variant [3, or 1 with --quick]")
    add(
        "--jobs",
        type=count,
        metavar="N",
        help="parallel processes [one for each core; recipe, ablation: one for two]",
    )
    add(
        "--out",
        type=Path,
        metavar="FOLDER",
        help=f"folder for CSV, SVG and Markdown [{PUBLISHED}, or {QUICK_RESULTS} with --quick]",
    )
    add("--backend", choices=("process", "ray"), default="process", help="where runs are executed [process]")
    add("--address", metavar="HOST:PORT", help="address of a Ray cluster [RAY_ADDRESS, or a new Ray here]")
    options = parser.parse_args(given)
    if (options.name is not None) != (options.study == "recipe"):
        parser.error("expected NAME for the study recipe, and for no other study")
    named = {"name": options.name} if options.name else {}
    cores_of_a_run = 2 if options.study in {"recipe", "ablation"} else 1
    seeds = options.seeds or (1 if options.quick else 3)
    console = Console()
    folder = options.out or (QUICK_RESULTS if options.quick else PUBLISHED)
    try:
        failures = study.reproduce(
            STUDIES[options.study](seeds, quick=options.quick, **named),
            folder,
            options.jobs or max(1, usable_cores() // cores_of_a_run),
            command_line("benchmarks.studies", given),
            console,
            backend=options.backend,
            address=options.address,
        )
    except (ImportError, OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. Completed runs are in {folder}; the same command continues.", soft_wrap=True
        )
        return 130
    if failures:
        console.print("[bold red]error:[/] these runs failed; run the same command to try them again:")
        for failure in failures:
            console.print(str(failure), soft_wrap=True, highlight=False, markup=False)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
