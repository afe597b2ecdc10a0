"""Windows without a display, in one process with MuJoCo, and with pygame or pygame-ce."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import types

import gymnasium as gym
import pytest
from gymnasium.error import DependencyNotInstalled

import her_envs  # noqa: F401 - registers the environments
from her_envs import canvas
from her_envs.canvas import Window, require_pygame

HUMAN = """
import gymnasium, her_envs
env = gymnasium.make("her_envs/PointReach-v0", render_mode="human")
env.reset(seed=0)
"""
PLAY = "from her_wrappers.cli import app; app(['play', 'her_envs/PointReach-v0'])"
NO_DISPLAY = {"PATH": os.environ["PATH"], "PYGAME_HIDE_SUPPORT_PROMPT": "1", "COLUMNS": "400"}


def run(code, **environment):
    """Run a program without a display."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=NO_DISPLAY | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems always have a display")
def test_without_a_display_a_window_is_an_error_at_once():
    """SDL falls back to a driver that shows nothing."""
    ran = run(HUMAN)
    assert ran.returncode == 1
    assert "RuntimeError: cannot open a window: " in ran.stderr
    assert ran.stderr.rstrip().endswith('render_mode="rgb_array" needs no display')


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems always have a display")
def test_without_a_display_nothing_waits_for_keys():
    ran = run(PLAY)
    assert ran.returncode == 3
    assert "Error: cannot open a window: " in ran.stderr
    assert "--record out.gif needs no display" in ran.stderr
    assert "Usage" not in ran.stderr + ran.stdout


@pytest.mark.parametrize("driver", ["offscreen", "dummy", "no-such-driver,offscreen"])
def test_a_driver_that_shows_nothing_may_be_asked_for_by_name(driver):
    ran = run(HUMAN, SDL_VIDEODRIVER=driver)
    assert ran.returncode == 0, ran.stderr


def test_a_window_that_shows_nothing_leaves_the_display_as_it_was(monkeypatch):
    pygame = require_pygame()
    monkeypatch.setattr(pygame.display, "get_driver", lambda: "offscreen")
    for before in (False, True):
        (pygame.display.init if before else pygame.display.quit)()
        with pytest.raises(RuntimeError, match="SDL shows nothing with its driver 'offscreen'"):
            Window()
        assert pygame.display.get_init() == before
    pygame.display.quit()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"MUJOCO_GL": "egl"}, "0"),
        ({"MUJOCO_GL": " EGL"}, "0"),
        ({"PYOPENGL_PLATFORM": "egl"}, "0"),
        ({"MUJOCO_GL": "glfw"}, None),
        ({"MUJOCO_GL": "egl", "SDL_FRAMEBUFFER_ACCELERATION": "1"}, "1"),
    ],
)
def test_beside_mujoco_on_egl_a_window_uses_no_gl(variables, expected, monkeypatch):
    """GLX and EGL in one process end it on X11: BadAccess."""
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM", "SDL_FRAMEBUFFER_ACCELERATION"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    Window().close()
    assert os.environ.get("SDL_FRAMEBUFFER_ACCELERATION") == expected


@pytest.fixture
def installed(monkeypatch):
    """Names of the packages that are installed; a warning of two may come again."""
    names = {"pygame-ce"}

    def version(name):
        if name in names:
            return "2.0"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(canvas, "version", version)
    canvas.warn_of_two_packages.cache_clear()
    yield names
    canvas.warn_of_two_packages.cache_clear()


REMEDY = 'pip uninstall --yes pygame pygame-ce, then: pip install "her-toolkit[render]"'


def test_both_packages_give_one_warning_with_the_remedy(installed, monkeypatch):
    told = []
    monkeypatch.setattr(gym.logger, "warn", told.append)
    installed.add("pygame")
    for _ in range(3):
        assert require_pygame().Surface
    (warning,) = told
    assert warning == f"pygame and pygame-ce are installed in the same folder pygame/; run: {REMEDY}"


@pytest.mark.parametrize("name", ["pygame", "pygame-ce"])
def test_either_package_alone_works_without_a_warning(installed, name, monkeypatch):
    monkeypatch.setattr(gym.logger, "warn", pytest.fail)
    installed.clear()
    installed.add(name)
    assert require_pygame().Surface


@pytest.mark.parametrize("left", [None, types.ModuleType("pygame")], ids=["nothing", "an empty folder"])
@pytest.mark.parametrize("name", ["pygame", "pygame-ce"])
def test_a_package_whose_files_the_other_took_away_is_named_with_the_remedy(
    installed, name, left, monkeypatch
):
    """Uninstalling one of both removes files of the other."""
    installed.clear()
    installed.add(name)
    monkeypatch.setitem(sys.modules, "pygame", left)
    with pytest.raises(DependencyNotInstalled) as raised:
        require_pygame()
    assert str(raised.value) == f"{name} is installed and its files are missing or damaged; run: {REMEDY}"


def test_without_either_package_the_extra_is_named(installed, monkeypatch):
    installed.clear()
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(
        DependencyNotInstalled, match=r'^rendering needs pygame; run: pip install "her-toolkit'
    ):
        require_pygame()
