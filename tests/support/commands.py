"""The `her` command in tests, and a short training by it."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from her_wrappers.cli import app

SMALL = {
    "steps_per_epoch": 100,
    "evaluation_episodes": 2,
    "learning_starts": 50,
    "num_envs": 4,
    "batch_size": 32,
}


def her(*arguments, columns=400):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": str(columns)})


def write_options(path):
    """Write the options of a short training, for ``--config``."""
    env = {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 6, "render_size": 64}}
    path.write_text(json.dumps({**SMALL, **env, "algo": "sac"}))
    return path


def train_reach(folder):
    """Run a very short `her train` on PointReach; return the folder of the training, and the output."""
    options = write_options(folder / "small.json")
    out = folder / "reach"
    result = her("train", "--config", options, "--steps", 200, "--out", out, "--no-tensorboard")
    assert result.exit_code == 0, result.output
    return out, result.output
