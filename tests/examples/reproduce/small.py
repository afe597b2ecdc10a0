"""Studies of a moment, done by the command, and outcomes that are made up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from typer.testing import CliRunner

from examples.reproduce import __main__ as command
from examples.reproduce import bitflip, fetch
from examples.reproduce.runs import Outcome, Point

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
REQUIRE_PACKAGES = fetch.require_packages
"""As it is where no test has replaced it."""

RUNS = {"bitflip": 4, "strategies": 5, "reach": 8, "fetch": 2}


def tiny_bits(n):
    return bitflip.SETTINGS | TINY | {"steps": 30 * n, "env_kwargs": {"n_bits": n}}


def do(*arguments):
    return CliRunner().invoke(command.app, [str(each) for each in arguments], env={"COLUMNS": "400"})


def do_quick(study, out, *arguments):
    return do(study, "--quick", "--jobs", 1, "--out", out, *arguments)


def outcome(run, rates, *, final=None, ended=0.0, seconds=1.0):
    """Make an outcome of success rates, ten steps apart."""
    points = [Point(9, 10 * (i + 1), i, rate, 0.0, 1.0, i, i) for i, rate in enumerate(rates)]
    last = replace(points[-1], success_rate=rates[-1] if final is None else final, seconds=seconds)
    return Outcome(run, tuple(points), last, datetime.fromtimestamp(ended, UTC))
