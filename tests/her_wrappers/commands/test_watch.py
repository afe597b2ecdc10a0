"""``her watch``, as a user runs it."""

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


def test_watch_records_ten_episodes_and_tells_how_they_went(trained, tmp_path):
    out, _ = trained
    result = her("watch", out / "best.pt", "--record", tmp_path / "new" / "out.gif", "--seed", 1)
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
def test_watch_needs_no_pictures_if_nothing_is_to_be_shown(trained, tmp_path, monkeypatch, drawn):
    monkeypatch.setattr(TaskEnv, "render", lambda self: drawn)
    out, _ = trained
    result = her("watch", out / "best.pt", "--record", tmp_path / "out.gif")
    assert (result.exit_code, "must return a picture" in result.output) == (3, True)
    assert not (tmp_path / "out.gif").exists()
    assert her("watch", out / "best.pt", "--no-show", "--episodes", 1).exit_code == 0


def test_watch_opens_a_window_and_ends_when_the_player_has_seen_enough(trained, monkeypatch):
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
    assert "bye" in result.output
    assert "1 episodes, success rate" in result.output
    assert not pygame.display.get_init(), "the window is closed"


def test_watch_tells_numbers_alone_and_they_are_those_of_the_agent(trained):
    out, _ = trained
    outputs = [
        her("watch", path, "--no-show", "--episodes", 20, "--seed", 4).output
        for path in (out / "best.pt", out / "best.pt", out)
    ]
    assert outputs[0] == outputs[1] == outputs[2], "a folder stands for its best.pt"
    rate = np.mean(["| success" in line for line in outputs[0].splitlines() if line.startswith("episode")])
    assert f"20 episodes, success rate {rate:.2f}" in outputs[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.pt"], "cannot read nowhere.pt: No such file or directory"),
        (["config.json"], "config.json is not a checkpoint of her train"),
        (["best.pt", "--env", "her_envs/PointPush-v0"], "best.pt is of an agent for Dict("),
        (["best.pt", "--env", "no/Such-v0"], "cannot make no/Such-v0"),
        (["best.pt", "--record", "out.mp4"], "--record must be a file that ends in .gif, got out.mp4"),
    ],
)
def test_watch_answers_a_mistake_with_a_sentence(trained, arguments, message, monkeypatch):
    monkeypatch.chdir(trained[0])
    result = her("watch", *arguments)
    assert result.exit_code == 2
    assert f"error: {message}" in result.output


def test_watch_names_a_place_where_no_film_can_be_written(trained, monkeypatch):
    monkeypatch.chdir(trained[0])
    result = her("watch", "best.pt", "--record", "best.pt/out.gif", "--episodes", "1")
    assert result.exit_code == 3
    assert "Error: cannot write best.pt/out.gif" in result.output


def test_watch_without_pygame_names_it(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    result = her("watch", trained[0] / "best.pt")
    assert result.exit_code == 3
    assert "pygame" in result.output
    assert "pip install" in result.output
    assert her("watch", trained[0] / "best.pt", "--no-show").exit_code == 0


def test_watch_takes_another_environment_of_the_same_spaces(trained):
    result = her(
        "watch", trained[0] / "best.pt", "--env", "her_envs/PointReach-v0", "--no-show", "--episodes", 1
    )
    assert "step 50 |" in result.output
