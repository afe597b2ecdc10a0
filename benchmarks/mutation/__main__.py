"""Small mistakes are made in the code on purpose, one at a time: which of them does no test see?

For example:

    make mutants                                          # measures coverage first, which takes some minutes
    make mutants ARGS="--sample 500"                      # 500 mutants of each package, drawn at random
    python -m benchmarks.mutation --parts replay/storage  # all of one folder

**A mutant** is one mistake in one function: another operator, a branch always or never taken, a number one
larger, a name misspelt, an argument left out or None, a value None, a call that is not made. The wording of
messages, what is executed at import, and default values are left alone.

**Killed** is a mutant with which a test of the default tier fails that passes without it, or does not end.
The tests that run the mutated statement are tried, according to the coverage measured before, all of them if
need be. Those that no test runs are survivors as well.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

from benchmarks.benchmark import Benchmark, count
from benchmarks.mutation.campaign import Campaign, Outcome
from benchmarks.mutation.covering import Covering
from benchmarks.mutation.fates import claims, scores, survivors
from benchmarks.mutation.mutants import Mutant, mutants_of
from her_agents.studies.result_page import claim_grid

ROOT = Path(__file__).parents[2]
BENCHMARK = Benchmark("mutation", "Mutation testing", __doc__ or "", peers=("pytest", "hypothesis"))
QUICK = 20
PYTEST_OPTIONS = ("-qq", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0")


def main(arguments: Sequence[str] | None = None) -> None:
    """Make mutants, let the tests meet them, print, and write the page."""
    options = BENCHMARK.parse(
        arguments,
        quick=f"{QUICK} mutants of each part",
        parts={
            "nargs": "+",
            "default": ["replay", "checker"],
            "metavar": "PART",
            "help": "folders or files of her_wrappers [replay checker]",
        },
        sample={"type": count, "metavar": "N", "help": "mutants of each part, drawn at random [all]"},
        seed={"type": int, "default": 0, "help": "of the draw [0]"},
        coverage={"type": Path, "default": ROOT / ".coverage", "metavar": "FILE", "help": "of make coverage"},
        log={
            "type": Path,
            "default": ROOT / "runs/mutation.jsonl",
            "metavar": "FILE",
            "help": "outcomes so far, not tried again; remove it when tests change [runs/mutation.jsonl]",
        },
        processes={
            "type": count,
            "default": os.cpu_count(),
            "metavar": "N",
            "help": "mutants at a time [cores]",
        },
    )
    there = {part: _mutants_below(part) for part in options.parts}
    sample = QUICK if options.quick else options.sample
    chosen = {part: _drawn(mutants, sample, options.seed) for part, mutants in there.items()}
    known = _read(options.log)
    missing = [mutant for mutants in chosen.values() for mutant in mutants if mutant not in known]
    if missing:
        _run(missing, options)
        known = _read(options.log)
    outcomes = {part: [known[mutant] for mutant in mutants] for part, mutants in chosen.items()}
    grids = [claim_grid(claims(outcomes), quick=options.quick), scores(outcomes), survivors(outcomes)]
    counts = ", ".join(f"{len(mutants):,} of {part}" for part, mutants in there.items())
    BENCHMARK.publish(options, grids, {"mutants there are": counts})


def _mutants_below(part: str) -> list[Mutant]:
    place = ROOT / "her_wrappers" / part
    files = [place] if place.suffix else sorted(place.rglob("*.py"))
    return [mutant for file in files for mutant in mutants_of(ROOT, file.relative_to(ROOT).as_posix())]


def _drawn(mutants: list[Mutant], count: int | None, seed: int) -> list[Mutant]:
    order = np.random.default_rng(seed).permutation(len(mutants))[:count]
    return [mutants[i] for i in sorted(order)]


def _run(mutants: list[Mutant], options: argparse.Namespace) -> None:
    options.log.parent.mkdir(parents=True, exist_ok=True)
    covering = Covering(ROOT, options.coverage)
    with options.log.open("a") as log, Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("mutants", total=len(mutants))

        def tell(outcome: Outcome) -> None:
            log.write(json.dumps(asdict(outcome)) + "\n")
            log.flush()
            progress.advance(task)

        tried = [(mutant, covering.tests(mutant)) for mutant in mutants]
        campaign = Campaign(ROOT, tried, options.processes, say=progress.console.print, tell=tell)
        with tempfile.TemporaryDirectory() as examples:
            os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = examples  # what mutants fail with is not to be kept
            failed = pytest.main([*PYTEST_OPTIONS], [campaign])
        if failed:
            raise SystemExit("the campaign did not end; see above. What is known stays in the log.")


def _read(log: Path) -> dict[Mutant, Outcome]:
    if not log.exists():
        return {}
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    outcomes = [Outcome(_mutant(row["mutant"]), row["fate"], row["by"]) for row in rows]
    return {outcome.mutant: outcome for outcome in outcomes}


def _mutant(row: dict[str, object]) -> Mutant:
    return Mutant(**{**row, "lines": tuple(row["lines"])})  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
