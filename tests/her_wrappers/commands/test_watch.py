"""The command ``her watch``: agents, policies and random actions."""

import subprocess
import sys

import imageio.v3 as imageio
import numpy as np
import pygame
import pytest

from her_envs import TaskEnv
from her_envs.canvas import Window
from tests.support.commands import her, train_reach

BITS = ["her_envs/BitFlipping-v0", "-o", "n_bits=3", "-o", "goal=ones", "-o", "render_size=64"]


@pytest.fixture(name="trained", scope="module")
def trained_agent(tmp_path_factory):
    return train_reach(tmp_path_factory.mktemp("runs"))[0]


def test_records_ten_episodes_of_an_agent_and_prints_their_results(trained, tmp_path):
    result = her("watch", trained / "best.pt", "--record", tmp_path / "new" / "out.gif", "--seed", 1)
    assert result.exit_code == 0, result.output
    assert result.stdout.count(": step 6 | return -") == 10
    assert "10 episodes, success rate 0." in result.stdout
    frames = imageio.imread(tmp_path / "new" / "out.gif")
    assert frames.shape[1:] == (64, 64, 3)
    assert len(frames) >= 20, "of 70, since equal pictures are merged in a GIF"
    assert np.ptp(frames) > 100


def test_no_show_does_not_render(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(TaskEnv, "render", lambda self: None)
    result = her("watch", trained, "--record", tmp_path / "out.gif")
    assert (result.exit_code, "must return a (height, width, 3) array, got" in result.stderr) == (3, True)
    assert not (tmp_path / "out.gif").exists()
    assert her("watch", trained, "--no-show", "--episodes", 1).exit_code == 0


def test_shows_a_window_until_escape_is_pressed(trained, monkeypatch):
    captions = []
    show_picture = Window.show

    def look(window, picture, caption, fps):
        show_picture(window, picture, caption, fps)
        captions.append(caption)
        if len(captions) == 10:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE))

    monkeypatch.setattr(Window, "show", look)
    result = her("watch", trained, "--fps", 1000)
    assert result.exit_code == 0, result.output
    assert captions[0] == "episode 1 | step 0 | return 0 | no success"
    assert captions[-1].startswith("episode 2 | step 2 |")
    assert "1 episodes, success rate" in result.stdout
    assert not pygame.display.get_init(), "the window is closed"


def test_equal_seeds_give_equal_results_of_an_agent(trained):
    arguments = ["--no-show", "--episodes", 20, "--seed", 4]
    outputs = [her("watch", path, *arguments).stdout for path in (trained / "best.pt", trained)]
    assert outputs[0] == outputs[1], "a folder means its best.pt"
    rate = np.mean(["| success" in line for line in outputs[0].splitlines() if line.startswith("episode")])
    assert f"20 episodes, success rate {rate:.2f}" in outputs[0]


def test_an_agent_acts_in_another_environment_with_equal_spaces(trained):
    policy = ["--policy", trained, "--no-show", "--episodes", 1]
    assert "step 50 |" in her("watch", "her_envs/PointReach-v0", *policy).stdout
    other = her("watch", "her_envs/PointPush-v0", *policy)
    assert (other.exit_code, "needs the observation space Dict(" in other.stderr) == (2, True)


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


def test_an_episode_is_recorded_without_any_display(tmp_path):
    command = "from her_wrappers.cli import main; main()"
    arguments = ["watch", "her_envs/PointReach-v0", "-o", "max_steps=4", "-o", "render_size=64"]
    subprocess.run(
        [sys.executable, "-c", command, *arguments, "--episodes", "1", "--record", tmp_path / "out.gif"],
        env={"SDL_VIDEODRIVER": "no-such-driver", "PYGAME_HIDE_SUPPORT_PROMPT": "1"},
        check=True,
        capture_output=True,
    )
    assert imageio.imread(tmp_path / "out.gif").shape == (5, 64, 64, 3)


def test_a_movie_has_the_render_fps_of_the_environment_or_the_given_one(tmp_path):
    pytest.importorskip("av", reason="PyAV is missing")
    options = ["-o", "max_steps=4", "-o", "render_size=65", "--episodes", 1]
    for name, fps in (("out.mp4", ["--fps", 25]), ("out.gif", [])):
        result = her("watch", "her_envs/PointReach-v0", *options, "--record", tmp_path / name, *fps)
        assert result.exit_code == 0, result.output
    assert imageio.immeta(tmp_path / "out.mp4", plugin="pyav")["fps"] == 25
    assert imageio.imread(tmp_path / "out.mp4", plugin="pyav").shape == (5, 64, 64, 3)
    assert imageio.immeta(tmp_path / "out.gif")["duration"] == 1000 / 10


WRONG = [
    ([*BITS, "--policy", "clever"], 2, "policy must be"),
    ([*BITS, "--record", "out.avi"], 2, "--record"),
    ([*BITS, "--keys"], 2, "gymnasium.utils.play"),
    (["best.pt", "--policy", "math:sin"], 2, "needs an environment"),
    (["CartPole-v1", "--policy", "best.pt"], 3, "must be a Dict"),
    (["best.pt", "--record", "best.pt/out.gif"], 3, "cannot write best.pt/out.gif"),
]


@pytest.mark.parametrize(("arguments", "exit_code", "message"), WRONG)
def test_what_cannot_be_shown_is_named(trained, arguments, exit_code, message, monkeypatch):
    monkeypatch.chdir(trained)
    result = her("watch", *arguments)
    assert (result.exit_code, message in result.stderr) == (exit_code, True), result.output


def test_without_pygame_the_error_names_the_extra(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    result = her("watch", trained)
    assert (result.exit_code, "pip install" in result.stderr) == (3, True)
    assert her("watch", trained, "--no-show").exit_code == 0


def test_the_error_of_mujoco_without_a_display_names_the_variable_to_set(monkeypatch, tmp_path):
    def render(env):
        raise OSError("an OpenGL platform library has not been loaded")

    monkeypatch.setattr(TaskEnv, "render", render)
    arguments = ["watch", *BITS, "--record", tmp_path / "out.gif"]
    assert "test_watch.py, line" in her(*arguments).stderr, "the error of another environment"
    monkeypatch.setitem(sys.modules, "mujoco", object())
    result = her(*arguments)
    assert (result.exit_code, "MUJOCO_GL=egl" in result.stderr) == (3, True)
