"""The command ``her watch``: agents, policies and random actions."""

import sys

import imageio.v3 as imageio
import numpy as np
import pygame
import pytest

from her_envs import TaskEnv
from her_envs.canvas import Window
from tests.support.commands import fails, her, succeeds

BITS = ["her_envs/BitFlipping-v0", "-o", "n_bits=3", "-o", "goal=ones", "-o", "render_size=64"]


@pytest.fixture(name="trained")
def trained_agent(reach):
    return reach[0]


def test_records_ten_episodes_of_an_agent_and_prints_their_results(trained, tmp_path):
    output = succeeds("watch", trained / "best.pt", "--record", tmp_path / "new" / "out.gif", "--seed", 1)
    assert output.count(": step 6 | return -") == 10
    assert "10 episodes, success rate 0." in output
    frames = imageio.imread(tmp_path / "new" / "out.gif")
    assert frames.shape[1:] == (64, 64, 3)
    assert len(frames) >= 20, "of 70, since equal pictures are merged in a GIF"
    assert np.ptp(frames) > 100


def test_no_show_does_not_render(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(TaskEnv, "render", lambda self: None)
    message = "must return a (height, width, 3) array, got"
    fails(3, message, "watch", trained, "--record", tmp_path / "out.gif")
    assert not (tmp_path / "out.gif").exists()
    succeeds("watch", trained, "--no-show", "--episodes", 1)


def test_shows_a_window_until_escape_is_pressed(trained, monkeypatch):
    captions = []
    show_picture = Window.show

    def look(window, picture, caption, fps):
        show_picture(window, picture, caption, fps)
        captions.append(caption)
        if len(captions) == 10:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE))

    monkeypatch.setattr(Window, "show", look)
    output = succeeds("watch", trained, "--fps", 1000)
    assert captions[0] == "episode 1 | step 0 | return 0 | no success"
    assert captions[-1].startswith("episode 2 | step 2 |")
    assert "1 episodes, success rate" in output
    assert not pygame.display.get_init(), "the window is closed"


@pytest.mark.parametrize("policy", [[], ["--policy", "her_policies_for_test:flip_first"]])
def test_a_policy_or_random_actions_are_shown(policy, tmp_path, monkeypatch):
    (tmp_path / "her_policies_for_test.py").write_text("def flip_first(observation):\n    return 0\n")
    monkeypatch.chdir(tmp_path)
    outputs = [
        her("watch", *BITS, *policy, "--fps", 1000, "--episodes", 2, "--seed", 3).stdout for _ in range(2)
    ]
    assert outputs[0].count("episode ") == 2
    assert outputs[0] == outputs[1], "equal seeds"
    assert not pygame.display.get_init(), "the window is closed"


def test_an_episode_is_recorded_without_any_display(tmp_path, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "no-such-driver")
    arguments = ["her_envs/PointReach-v0", "-o", "max_steps=4", "-o", "render_size=64", "--episodes", 1]
    fails(3, "without a display, use --record out.gif", "watch", *arguments)
    succeeds("watch", *arguments, "--record", tmp_path / "out.gif")
    assert imageio.imread(tmp_path / "out.gif").shape == (5, 64, 64, 3)


def test_a_movie_has_the_render_fps_of_the_environment_or_the_given_one(tmp_path):
    pytest.importorskip("av", reason="PyAV is missing")
    options = ["-o", "max_steps=4", "-o", "render_size=65", "--episodes", 1]
    for name, fps in (("out.mp4", ["--fps", 25]), ("out.gif", [])):
        succeeds("watch", "her_envs/PointReach-v0", *options, "--record", tmp_path / name, *fps)
    assert imageio.immeta(tmp_path / "out.mp4", plugin="pyav")["fps"] == 25
    assert imageio.imread(tmp_path / "out.mp4", plugin="pyav").shape == (5, 64, 64, 3)
    assert imageio.immeta(tmp_path / "out.gif")["duration"] == 1000 / 10


def test_without_pygame_the_error_names_the_extra(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    fails(3, "pip install", "watch", trained)
    succeeds("watch", trained, "--no-show")


def test_the_error_of_mujoco_without_a_display_names_the_variable_to_set(monkeypatch, tmp_path):
    def render(env):
        raise OSError("an OpenGL platform library has not been loaded")

    monkeypatch.setattr(TaskEnv, "render", render)
    arguments = ["watch", *BITS, "--record", tmp_path / "out.gif"]
    assert "test_watch.py, line" in her(*arguments).stderr, "the error of another environment"
    monkeypatch.setitem(sys.modules, "mujoco", object())
    fails(3, "MUJOCO_GL=egl", *arguments)
