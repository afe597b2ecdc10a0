"""The command ``her watch``."""

from __future__ import annotations

import sys

import imageio.v3 as imageio
import numpy as np
import pygame
import pytest

from her_envs import TaskEnv
from her_envs.canvas import Window
from tests.support.commands import her, train_reach


@pytest.fixture(name="trained", scope="module")
def trained_agent(tmp_path_factory):
    return train_reach(tmp_path_factory.mktemp("runs"))


def test_records_ten_episodes_and_prints_their_results(trained, tmp_path):
    out, _ = trained
    result = her("watch", out / "best.pt", "--record", tmp_path / "new" / "out.gif", "--seed", 1)
    assert result.exit_code == 0, result.output
    assert result.output.count("| step 6 |") + result.output.count(": step 6 |") == 10
    assert "10 episodes, success rate 0." in result.output
    for row in ("return", "length"):
        assert any(row in line and "│" in line for line in result.output.splitlines())
    frames = imageio.imread(tmp_path / "new" / "out.gif")
    assert frames.shape[1:] == (64, 64, 3)
    assert len(frames) >= 20, "of 70, since equal pictures are merged in a GIF"
    assert np.ptp(frames) > 100


@pytest.mark.parametrize("drawn", [None, np.zeros(4)])
def test_no_show_does_not_render(trained, tmp_path, monkeypatch, drawn):
    monkeypatch.setattr(TaskEnv, "render", lambda self: drawn)
    out, _ = trained
    result = her("watch", out / "best.pt", "--record", tmp_path / "out.gif")
    assert (result.exit_code, "must return a picture" in result.output) == (3, True)
    assert not (tmp_path / "out.gif").exists()
    assert her("watch", out / "best.pt", "--no-show", "--episodes", 1).exit_code == 0


def test_shows_a_window_until_escape_is_pressed(trained, monkeypatch):
    out, _ = trained
    captions = []
    show_picture = Window.show

    def look(window, picture, caption, fps):
        show_picture(window, picture, caption, fps)
        captions.append(caption)
        if len(captions) == 10:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE))

    monkeypatch.setattr(Window, "show", look)
    result = her("watch", out / "best.pt", "--fps", 1000)
    assert result.exit_code == 0, result.output
    assert captions[0] == "episode 1 | step 0 | return 0 | no success"
    assert captions[-1].startswith("episode 2 | step 2 |")
    assert "stopped" in result.output
    assert "1 episodes, success rate" in result.output
    assert not pygame.display.get_init(), "the window is closed"


def test_no_show_prints_the_results_of_the_agent(trained):
    out, _ = trained
    outputs = [
        her("watch", path, "--no-show", "--episodes", 20, "--seed", 4).output
        for path in (out / "best.pt", out / "best.pt", out)
    ]
    assert outputs[0] == outputs[1] == outputs[2], "a folder means its best.pt"
    rate = np.mean(["| success" in line for line in outputs[0].splitlines() if line.startswith("episode")])
    assert f"20 episodes, success rate {rate:.2f}" in outputs[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["best.pt", "--env", "her_envs/PointPush-v0"], "the agent of best.pt needs the space Dict("),
        (["best.pt", "--env", "no/Such-v0"], "cannot make no/Such-v0"),
        (["best.pt", "--record", "out.mp4"], "--record must be a file that ends in .gif, got out.mp4"),
    ],
)
def test_bad_options_are_usage_errors(trained, arguments, message, monkeypatch):
    monkeypatch.chdir(trained[0])
    result = her("watch", *arguments)
    assert result.exit_code == 2
    assert f"error: {message}" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.pt"], "cannot read nowhere.pt: No such file or directory"),
        (["config.json"], "config.json is not a checkpoint of `her train`"),
        (["best.pt", "--env", "unfinished.py:Env"], "unfinished.py, line 1: '(' was never closed"),
        (["best.pt", "--env", "CartPole-v1"], "observation space must be a Dict with the keys"),
    ],
)
def test_exits_with_code_3_if_checkpoint_or_environment_cannot_be_used(
    trained, arguments, message, monkeypatch
):
    monkeypatch.chdir(trained[0])
    (trained[0] / "unfinished.py").write_text("def make_env(\n")
    result = her("watch", *arguments)
    assert (result.exit_code, message in result.stderr) == (3, True), result.output


def test_unwritable_gif_is_named(trained, monkeypatch):
    monkeypatch.chdir(trained[0])
    result = her("watch", "best.pt", "--record", "best.pt/out.gif", "--episodes", "1")
    assert result.exit_code == 3
    assert "Error: cannot write best.pt/out.gif" in result.output


def test_without_pygame_the_error_names_the_extra(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    result = her("watch", trained[0] / "best.pt")
    assert result.exit_code == 3
    assert "pygame" in result.output
    assert "pip install" in result.output
    assert her("watch", trained[0] / "best.pt", "--no-show").exit_code == 0


def test_env_option_replaces_the_environment(trained):
    result = her(
        "watch", trained[0] / "best.pt", "--env", "her_envs/PointReach-v0", "--no-show", "--episodes", 1
    )
    assert "step 50 |" in result.output
