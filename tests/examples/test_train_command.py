"""``python -m examples.train`` and ``python -m examples.play``, as a user runs them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import gymnasium as gym
import imageio.v3 as imageio
import numpy as np
import pygame
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from examples import play
from examples import train as command
from examples.training.checkpoints import load_checkpoint
from examples.training.config import Config
from her_envs import PointReach, TaskEnv
from her_envs.canvas import Window

SMALL = {
    "steps_per_epoch": 100,
    "evaluation_episodes": 2,
    "learning_starts": 50,
    "num_envs": 4,
    "batch_size": 32,
}


def run(app, *arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "400"})


@pytest.fixture(name="options", scope="module")
def options_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "small.json"
    path.write_text(
        json.dumps(
            SMALL
            | {
                "env": "her_envs/PointReach-v0",
                "algo": "sac",
                "env_kwargs": {"max_steps": 6, "render_size": 64},
            }
        )
    )
    return path


@pytest.fixture(name="trained", scope="module")
def trained_agent(tmp_path_factory, options):
    out = tmp_path_factory.mktemp("runs") / "reach"
    result = run(command.app, "--config", options, "--steps", 200, "--out", out, "--no-tensorboard")
    assert result.exit_code == 0, result.output
    return out, result.output


def test_it_checks_trains_and_says_where_all_is(trained):
    out, output = trained
    assert "Goal interface of her_envs/PointReach-v0: 0 errors" in output
    assert "epoch   2 |       200 steps | success" in output
    assert "goal_age" in output
    assert f"checkpoints and logs in {out}" in output
    assert f"Watch it: python -m examples.play {out / 'best.pt'}" in output
    assert {"best.pt", "latest.pt", "progress.csv", "config.json"} <= {path.name for path in out.iterdir()}


def test_the_command_line_wins_over_the_file(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [
        "--env",
        "her_envs/BitFlipping-v0",
        "-o",
        "n_bits=4",
        "--algo",
        "dqn",
        "--no-her",
    ]
    result = run(
        command.app,
        "--config",
        options,
        *arguments,
        "--steps",
        100,
        "--steps-per-epoch",
        50,
        "--seed",
        5,
        "--agent",
        '{"hidden": [8]}',
    )
    assert result.exit_code == 0, result.output
    config = json.loads(Path("runs/BitFlipping-v0-dqn-no-her-5/config.json").read_text())
    assert (config["env_kwargs"], config["agent"], config["her"]) == ({"n_bits": 4}, {"hidden": [8]}, False)
    assert (config["num_envs"], config["steps_per_epoch"]) == (4, 50)
    assert list(Path("runs/BitFlipping-v0-dqn-no-her-5/tensorboard").iterdir())


def test_resume_goes_on_where_it_was_left(options, tmp_path):
    run(command.app, "--config", options, "--steps", 100, "--out", tmp_path / "a", "--no-tensorboard")
    result = run(command.app, "--resume", tmp_path / "a", "--steps", 200, "--no-tensorboard")
    assert result.exit_code == 0, result.output
    assert "epoch   1" not in result.output
    assert "epoch   2" in result.output
    assert load_checkpoint(tmp_path / "a" / "latest.pt")["counts"]["epochs"] == 2


def test_ctrl_c_saves_and_says_how_to_go_on(options, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_print_epoch", lambda row: signal.raise_signal(signal.SIGINT))
    arguments = ["--config", options, "--steps", 10**8, "--out", tmp_path / "a", "--no-tensorboard"]
    result = run(command.app, *arguments)
    assert result.exit_code == 130
    assert "Interrupted; saved. Best success rate" in result.output
    assert f"Go on with: python -m examples.train --resume {tmp_path / 'a'}" in result.output
    assert load_checkpoint(tmp_path / "a" / "latest.pt")["counts"]["epochs"] == 1


MISTAKES = [
    ([], "expected env, got none; pass --env"),
    (["--env", "her_envs/BitFlipping-v0"], "expected algo, got none; pass --algo"),
    (["--env", "no/Such-v0", "--algo", "dqn"], "cannot make no/Such-v0:"),
    (["--env", "her_envs/BitFlipping-v0", "--algo", "sac"], "sac needs actions in a Box, got Discrete(10)"),
    (["--env", "her_envs/PointReach-v0", "--algo", "dqn"], "dqn needs Discrete actions, got Box("),
    (["--env", "her_envs/PointReach-v0", "--algo", "ppo"], "unknown algo 'ppo'; choose from 'dqn'"),
    (["--env", "CartPole-v1", "--algo", "dqn"], "observation space must be a Dict with the keys"),
    (
        ["--env", "x", "--algo", "dqn", "-o", "bits"],
        "expected name=value, or a JSON object, got 'bits'",
    ),
    (
        ["--env", "x", "--algo", "dqn", "--agent", "tau"],
        "expected name=value, or a JSON object, got 'tau'",
    ),
    (["--env", "x", "--algo", "dqn", "--k", "0"], "k must be a whole number >= 1, got 0"),
    (["--config", "no.toml"], "cannot read no.toml"),
    (["--resume", "nowhere"], "cannot read nowhere/latest.pt: No such file or directory"),
    (["--resume", "nowhere", "--out", "there"], "leave out --out and --config"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_answered_with_a_sentence(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(command.app, *arguments)
    assert result.exit_code == 2
    assert "error: " in result.output
    assert message in result.output
    assert not list(tmp_path.iterdir())


def test_a_training_is_not_written_over(trained, options):
    out, _ = trained
    again = run(command.app, "--config", options, "--out", out)
    assert again.exit_code == 2
    assert f"there is a training in {out} already; go on with it by --resume {out}" in again.output


def test_only_steps_may_change_and_only_latest_is_resumed(trained):
    out, _ = trained
    other = run(command.app, "--resume", out, "--env", "her_envs/PointPush-v0")
    assert (other.exit_code, "is of a training with env 'her_envs/PointReach-v0', got" in other.output) == (
        2,
        True,
    )
    best = run(command.app, "--resume", out / "best.pt")
    assert best.exit_code == 2
    assert f"--resume takes the folder of a training, or its latest.pt, got {out / 'best.pt'}" in best.output


class Swapped(TaskEnv):
    """Pays for any goal but the one that is wanted."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -1 - super().compute_reward(achieved_goal, desired_goal, info)


@pytest.fixture(name="broken_id")
def broken_environment():
    gym.register("her-test/Swapped-v0", lambda **options: Swapped(PointReach(), **options))
    yield "her-test/Swapped-v0"
    del gym.registry["her-test/Swapped-v0"]


def test_an_environment_that_fails_the_check_is_not_trained_on_unless_forced(broken_id, options, tmp_path):
    arguments = [
        "--config",
        options,
        "--env",
        broken_id,
        "--steps",
        100,
        "--no-tensorboard",
    ]
    stopped = run(command.app, *arguments, "--out", tmp_path / "a")
    assert stopped.exit_code == 2
    assert "GE" in stopped.output, "the report is printed"
    assert "would break relabeling: mend the errors above, or pass --force" in stopped.output
    assert not (tmp_path / "a").exists()
    with pytest.warns(UserWarning, match="compute_reward"):
        forced = run(command.app, *arguments, "--out", tmp_path / "a", "--force")
    assert forced.exit_code == 0, forced.output
    assert (tmp_path / "a" / "latest.pt").exists()


def test_help_shows_examples_and_defaults():
    for module, example in (
        (command, "examples.train --env her_envs/PointReach-v0"),
        (command, "runs/NAME-ALGO-SEED"),
        (play, "best.pt --record"),
    ):
        result = run(module.app, "--help")
        assert result.exit_code == 0
        assert example in " ".join(result.output.split())


def test_the_defaults_that_help_names_are_those_of_the_config():
    defaults = {each.name: each.default for each in fields(Config)}
    named = {}
    for option in get_command(command.app).params:
        told = re.search(r"\[default: (.*)\]", option.help or "")
        if told and option.name in defaults:
            named[option.name] = told[1]
    words = {True: "{}", False: "no-{}"}
    expected = {
        name: words[defaults[name]].format(name.replace("_", "-"))
        if isinstance(defaults[name], bool)
        else str(defaults[name])
        for name in named
    }
    assert named == expected
    assert len(named) > 10


def test_play_records_ten_episodes_and_tells_how_they_went(trained, tmp_path):
    out, _ = trained
    result = run(play.app, out / "best.pt", "--record", tmp_path / "new" / "out.gif", "--seed", 1)
    assert result.exit_code == 0, result.output
    assert result.output.count("| step 6 |") + result.output.count(": step 6 |") == 10
    assert "10 episodes, success rate 0." in result.output
    for row in ("return", "length"):
        assert any(row in line and "│" in line for line in result.output.splitlines())
    frames = imageio.imread(tmp_path / "new" / "out.gif")
    assert frames.shape[1:] == (64, 64, 3)
    assert len(frames) >= 20, "of 70, since a GIF merges those that look alike"
    assert np.ptp(frames) > 100


@pytest.mark.parametrize("drawn", [None, np.zeros(4)])
def test_play_needs_no_pictures_if_nothing_is_to_be_shown(trained, tmp_path, monkeypatch, drawn):
    monkeypatch.setattr(TaskEnv, "render", lambda self: drawn)
    out, _ = trained
    result = run(play.app, out / "best.pt", "--record", tmp_path / "out.gif")
    assert (result.exit_code, "draws no pictures" in result.output) == (3, True)
    assert not (tmp_path / "out.gif").exists()
    assert run(play.app, out / "best.pt", "--no-show", "--episodes", 1).exit_code == 0


def test_play_opens_a_window_and_ends_when_the_player_has_seen_enough(trained, monkeypatch):
    out, _ = trained
    captions = []
    show_picture = Window.show

    def look(window, picture, caption, fps):
        show_picture(window, picture, caption, fps)
        captions.append(caption)
        if len(captions) == 10:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE))

    monkeypatch.setattr(Window, "show", look)
    result = run(play.app, out / "best.pt", "--fps", 1000)
    assert result.exit_code == 0, result.output
    assert captions[0] == "episode 1 | step 0 | return 0 | no success"
    assert captions[-1].startswith("episode 2 | step 2 |")
    assert "bye" in result.output
    assert "1 episodes, success rate" in result.output
    assert not pygame.display.get_init(), "the window is closed"


def test_play_tells_numbers_alone_and_they_are_those_of_the_agent(trained):
    out, _ = trained
    outputs = [
        run(play.app, path, "--no-show", "--episodes", 20, "--seed", 4).output
        for path in (out / "best.pt", out / "best.pt", out)
    ]
    assert outputs[0] == outputs[1] == outputs[2], "a folder stands for its best.pt"
    rate = np.mean(["| success" in line for line in outputs[0].splitlines() if line.startswith("episode")])
    assert f"20 episodes, success rate {rate:.2f}" in outputs[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.pt"], "cannot read nowhere.pt: No such file or directory"),
        (["config.json"], "config.json is no checkpoint of examples.train"),
        (["best.pt", "--env", "her_envs/PointPush-v0"], "best.pt is of an agent for Dict("),
        (["best.pt", "--env", "no/Such-v0"], "cannot make no/Such-v0"),
        (["best.pt", "--record", "out.mp4"], "--record must be a file that ends in .gif, got out.mp4"),
    ],
)
def test_play_answers_a_mistake_with_a_sentence(trained, arguments, message, monkeypatch):
    monkeypatch.chdir(trained[0])
    result = run(play.app, *arguments)
    assert result.exit_code == 2
    assert f"error: {message}" in result.output


def test_play_names_a_place_where_no_film_can_be_written(trained, monkeypatch):
    monkeypatch.chdir(trained[0])
    result = run(play.app, "best.pt", "--record", "best.pt/out.gif", "--episodes", "1")
    assert result.exit_code == 3
    assert "Error: cannot write best.pt/out.gif" in result.output


def test_play_without_pygame_names_it(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    result = run(play.app, trained[0] / "best.pt")
    assert result.exit_code == 2
    assert "pygame" in result.output
    assert "pip install" in result.output
    assert run(play.app, trained[0] / "best.pt", "--no-show").exit_code == 0


@pytest.mark.parametrize("module", ["train", "play"])
def test_without_torch_they_end_with_a_sentence(module):
    without = "import sys, runpy; sys.modules['torch'] = None"
    code = f"{without}; runpy.run_module('examples.{module}', run_name='__main__')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == 'training needs torch; run: pip install "her-toolkit[examples]"\n'


def test_play_takes_another_environment_of_the_same_spaces(trained):
    result = run(
        play.app, trained[0] / "best.pt", "--env", "her_envs/PointReach-v0", "--no-show", "--episodes", 1
    )
    assert "step 50 |" in result.output
