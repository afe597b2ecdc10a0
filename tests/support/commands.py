"""The `her` command in tests, and a short run by it."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import NamedTuple
from unittest import mock

from her_wrappers.cli import main

SMALL = {
    "steps_per_epoch": 100,
    "evaluation_episodes": 2,
    "learning_starts": 50,
    "num_envs": 4,
    "batch_size": 32,
    "updates_per_step": 0.1,
}


class Result(NamedTuple):
    """Exit code and output of a command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self):
        return self.stdout + self.stderr


def her(*arguments, columns=400):
    """Run `her` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(list(map(str, arguments)))
        except SystemExit as error:  # of wrong usage, or of --help
            code = error.code or 0
    return Result(code, out.getvalue(), err.getvalue())


def succeeds(*arguments):
    """Run a command whose exit code must be 0; return its standard output."""
    result = her(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(exit_code, message, *arguments):
    """Run a command that must end with this exit code and this message on stderr."""
    result = her(*arguments)
    assert (result.exit_code, message in result.stderr) == (exit_code, True), result.output


def write_options(path):
    """Write the options of a short run, for ``--config``."""
    env = {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 6, "render_size": 64}}
    path.write_text(json.dumps({**SMALL, **env, "algo": "sac"}))
    return path


def train_reach(folder):
    """Run a very short `her train` on PointReach; return the folder of the run, and the output."""
    options = write_options(folder / "small.json")
    out = folder / "reach"
    arguments = ["--config", options, "--steps", 200, "--out", out, "--no-tensorboard", "--check-steps", 300]
    return out, succeeds("train", *arguments)
