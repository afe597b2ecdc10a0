"""``her play`` with the keyboard, with a policy, and as a GIF."""

from __future__ import annotations

import subprocess
import sys

import imageio.v3 as imageio
import numpy as np
import pygame
import pytest
import typer
from gymnasium import spaces
from typer.testing import CliRunner

from her_envs import TaskEnv
from her_envs.canvas import Keys, Window
from her_wrappers.cli import app
from her_wrappers.commands.keyboard import key_map

FAST = ["--fps", "1000"]
BITS = ["her_envs/BitFlipping-v0", "-o", "n_bits=3", "-o", "goal=ones", "-o", "render_size=64"]


def run(*arguments):
    return CliRunner().invoke(app, ["play", *arguments], env={"COLUMNS": "400"})


@pytest.fixture
def player(monkeypatch):
    """Return a list of keys to press, one after each frame, and a list of the captions shown."""
    keys, captions = [], []
    show = Window.show

    def show_and_press(window, picture, caption, fps):
        show(window, picture, caption, fps)
        captions.append(caption)
        key = keys.pop(0) if keys else None
        event = pygame.event.Event(pygame.KEYDOWN, key=key) if key else pygame.event.Event(pygame.QUIT)
        pygame.event.post(event)

    monkeypatch.setattr(Window, "show", show_and_press)
    return keys, captions


def test_bits_are_flipped_by_number_and_by_the_cursor(player):
    keys, captions = player
    # Three different keys flip each bit once; for each start one order of them reaches the goal.
    keys += [pygame.K_0, pygame.K_RIGHT, pygame.K_SPACE, pygame.K_LEFT, pygame.K_2]
    output = run(*BITS, *FAST, "--seed", "0", "--episodes", "1").output
    assert "number keys choose" in output
    assert "| step 1 |" in captions[1]
    assert captions[2].endswith("| cursor at 1")
    assert "episode 1:" in output or "bye" in output


def test_points_are_moved_by_arrows(player):
    keys, captions = player
    keys += [pygame.K_UP, pygame.K_RIGHT, pygame.K_ESCAPE]
    output = run("her_envs/PointReach-v0", "-o", "render_size=64", *FAST, "--seed", "0").output
    assert "arrow keys move" in output
    assert "bye" in output
    assert [caption.split(" | ")[1] for caption in captions] == ["step 0", "step 1", "step 2"]


@pytest.mark.parametrize("policy", ["random", "her_policies_for_test:flip_first"])
def test_a_policy_is_shown_until_its_last_episode_ends(policy, tmp_path, monkeypatch):
    (tmp_path / "her_policies_for_test.py").write_text("def flip_first(observation):\n    return 0\n")
    monkeypatch.chdir(tmp_path)
    output = run(*BITS, *FAST, "--policy", policy, "--episodes", "2", "--seed", "3").output
    assert output.count("episode ") == 2
    assert not pygame.display.get_init(), "the window is closed"


def test_equal_seeds_give_equal_random_policies():
    outputs = [run(*BITS, *FAST, "--policy", "random", "--seed", "5").output for _ in range(2)]
    assert outputs[0] == outputs[1]


def test_an_episode_is_recorded_without_any_display(tmp_path):
    command = "from her_wrappers.cli import app; app()"
    arguments = ["play", "her_envs/PointReach-v0", "-o", "max_steps=4", "-o", "render_size=64"]
    arguments += ["--seed", "0", "--episodes", "1"]  # unseeded frames can be equal, which a GIF merges
    subprocess.run(
        [sys.executable, "-c", command, *arguments, "--record", tmp_path / "new/out.gif"],
        env={"SDL_VIDEODRIVER": "no-such-driver", "PYGAME_HIDE_SUPPORT_PROMPT": "1"},
        check=True,
        capture_output=True,
    )
    assert imageio.imread(tmp_path / "new" / "out.gif").shape == (5, 64, 64, 3)


MISTAKES = [
    (["no/Such-v0"], "cannot make no/Such-v0"),
    (["her_envs/PointMaze-v0", "-o", "layot=u"], "unexpected keyword argument 'layot'"),
    (["her_envs/PointMaze-v0", "-o", "layout=v"], "unknown layout 'v'; choose from 'open', 'u'"),
    (
        ["her_envs/PointMaze-v0", "-o", "layout"],
        "expected name=value, or a JSON object, got 'layout'",
    ),
    ([*BITS, "--policy", "clever"], "--policy must be 'random' or module:function, got 'clever'"),
    (
        [*BITS, "--policy", "no_such_module:act"],
        "cannot import 'no_such_module' for the policy",
    ),
    ([*BITS, "--policy", "math:pi"], "--policy must be a function of an observation, got 3.14"),
    ([*BITS, "--record", "out.mp4"], "--record must be a file that ends in .gif, got out.mp4"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_wrong_arguments_end_with_exit_code_two_and_one_sentence(arguments, message):
    result = run(*arguments, *FAST)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("command", ["check", "play", "record"])
def test_environments_are_found_in_the_current_folder(command, tmp_path, monkeypatch):
    (tmp_path / f"envs_for_{command}.py").write_text("import her_envs")
    monkeypatch.chdir(tmp_path)
    out = {"check": [], "play": ["--record", "out.gif"], "record": ["--out", "out"]}[command]
    result = CliRunner().invoke(
        app, [command, f"envs_for_{command}:her_envs/PointReach-v0", "-o", "max_steps=3", *out]
    )
    assert result.exit_code == 0, result.output


def test_the_error_of_mujoco_without_a_display_names_the_variable_to_set(monkeypatch, tmp_path):
    def render(env):
        raise OSError("an OpenGL platform library has not been loaded")

    monkeypatch.setattr(TaskEnv, "render", render)
    arguments = [*BITS, "--record", str(tmp_path / "out.gif")]
    assert "test_play.py, line" in run(*arguments).output, "the error of another environment"
    monkeypatch.setitem(sys.modules, "mujoco", object())
    result = run(*arguments)
    assert result.exit_code == 3
    assert "OSError: an OpenGL platform library has not been loaded; without a display" in result.output
    assert "MUJOCO_GL=egl" in result.output


def pressed(*names):
    return Keys(names, frozenset(), closed=False)


def test_each_action_space_has_its_keys():
    discrete = key_map(spaces.Discrete(3, start=5))
    assert discrete.action(pressed("1")) == 6
    assert discrete.action(pressed("7")) is None
    assert discrete.action(pressed("left")) is None
    assert discrete.action(pressed("space")) == 7, "the cursor goes round"
    many = key_map(spaces.Box(-1, 1, (4,)))
    np.testing.assert_array_equal(many.action(pressed("2")), [-1, -1, 1, -1])
    plane = key_map(spaces.Box(-2, 2, (2,)))
    held = Keys((), frozenset({"left", "up"}), closed=False)
    np.testing.assert_array_equal(plane.action(held), [-2, 2])
    np.testing.assert_array_equal(plane.action(pressed("left", "right")), [0, 0])
    assert plane.action(pressed("x")) is None
    with pytest.raises(typer.BadParameter, match="the keyboard needs a Discrete action space"):
        key_map(spaces.MultiDiscrete([2, 2]))
