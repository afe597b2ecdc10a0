"""Short studies, run by the command, and invented results."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from benchmarks.studies import bitflip
from benchmarks.studies.__main__ import main
from benchmarks.studies.runs import Point, RunResult

TINY = {
    "num_envs": 2,
    "steps": 90,
    "steps_per_epoch": 30,
    "learning_starts": 20,
    "batch_size": 8,
    "evaluation_episodes": 2,
    "agent": {"hidden": [4]},
}
POINT = {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 5}}
RUNS = {"bitflip": 4, "strategies": 5, "reach": 8}


def tiny_bits(n):
    return bitflip.SETTINGS | TINY | {"steps": 30 * n, "env_kwargs": {"n_bits": n}}


class Outcome(NamedTuple):
    """Exit code and output of the command; the output includes error messages."""

    exit_code: int
    output: str


def do(*arguments):
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown):
        try:
            code = main(list(map(str, arguments)))
        except SystemExit as error:
            code = error.code
    return Outcome(code, shown.getvalue())


def do_quick(study, out, *arguments):
    return do(study, "--quick", "--jobs", 1, "--out", out, *arguments)


def result_of(run, rates, *, final=None, ended=0.0, seconds=1.0):
    """Return the result of a run with the given success rates, one after every ten steps."""
    points = [Point(9, 10 * (i + 1), i, rate, 0.0, 1.0, i, i) for i, rate in enumerate(rates)]
    last = replace(points[-1], success_rate=rates[-1] if final is None else final, seconds=seconds)
    return RunResult(run, tuple(points), last, datetime.fromtimestamp(ended, UTC))
