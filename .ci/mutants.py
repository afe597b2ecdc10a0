"""Mutation testing: print small changes of the code that no test detects.

    make mutants                                             # 10 mutants of the replay, 10 of the checker
    make mutants ARGS="checker --sample 100 --seed 1"

Cosmic Ray (https://cosmic-ray.readthedocs.io) creates the mutants. A mutant survives if the default tests of
its folder pass. The tests run in a copy of the repository.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

ROOT = Path(__file__).parents[1]
FOLDERS = ("replay", "checker")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "runs", "site")

CONFIG = """
[cosmic-ray]
module-path = "{folder}"
timeout = 900.0
test-command = "{python} -m pytest -x -q -p no:cacheprovider -n {processes} tests/{folder}"
distributor.name = "local"

[cosmic-ray.filters.operators-filter]
# One mutant for each operator, and no mutants of type annotations (`X | None`).
exclude-operators = [
    "core/ReplaceBinaryOperator_(?!Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Mod_Mul|BitAnd_BitXor)",
    "core/ReplaceComparisonOperator_(?!Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is)",
]
"""


def try_mutants(part: str, sample: int, seed: int, processes: int) -> None:
    """Test a random sample of mutants of a folder, and print the survivors."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        config = CONFIG.format(folder=f"her_wrappers/{part}", python=sys.executable, processes=processes)
        (copy / "mutants.toml").write_text(config)
        run("cosmic_ray.cli", "baseline", "mutants.toml", cwd=copy)  # fails if tests fail without a mutant
        run("cosmic_ray.cli", "init", "mutants.toml", "mutants.sqlite", cwd=copy)
        run("cosmic_ray.tools.filters.operators_filter", "mutants.sqlite", "mutants.toml", cwd=copy)
        with use_db(copy / "mutants.sqlite", WorkDB.Mode.open) as session:
            keep_sample(session, sample, seed)
        run("cosmic_ray.cli", "exec", "mutants.toml", "mutants.sqlite", cwd=copy)
        with use_db(copy / "mutants.sqlite", WorkDB.Mode.open) as session:
            report(part, [result for _, result in session.results])


def run(*module_and_arguments: str, cwd: Path) -> None:
    """Run a module of Cosmic Ray, without writing bytecode of mutants."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-m", *module_and_arguments], cwd=cwd, check=True, env=environment)


def keep_sample(session: WorkDB, sample: int, seed: int) -> None:
    """Skip all mutants except a random sample."""
    jobs = sorted((str(item.mutations), item.job_id) for item in session.pending_work_items)
    chosen = set(random.Random(seed).sample(jobs, min(sample, len(jobs))))
    skipped = [job_id for mutation, job_id in jobs if (mutation, job_id) not in chosen]
    session.set_multiple_results(skipped, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))
    print(f"{len(jobs):,} mutants, {len(chosen)} of them in the sample")


def report(part: str, results: list[WorkResult]) -> None:
    """Print the survivors, and the number of mutants with each outcome."""
    tried = [result for result in results if result.worker_outcome is not WorkerOutcome.SKIPPED]
    for result in tried:
        if result.test_outcome is TestOutcome.SURVIVED:
            print(result.diff)
    counts = Counter(str(result.test_outcome.value) for result in tried if result.test_outcome)
    print(f"{part}: {len(tried)} mutants, {', '.join(f'{n} {name}' for name, n in sorted(counts.items()))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="folders of her_wrappers [both]")
    parser.add_argument("--sample", type=int, default=10, help="mutants of each folder [%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample [%(default)s]")
    parser.add_argument("--processes", type=int, default=1, help="test processes [%(default)s]")
    options = parser.parse_args()
    for name in options.folders or FOLDERS:
        try_mutants(name, options.sample, options.seed, options.processes)
