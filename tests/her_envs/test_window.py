"""Windows without a display, in one process with MuJoCo, and with pygame or pygame-ce."""

import os
import subprocess
import sys
import types

import pytest
from gymnasium.error import DependencyNotInstalled

from her_envs import PointReach, TaskEnv
from her_envs.canvas import Window

HUMAN = """
import gymnasium, her_envs
env = gymnasium.make("her_envs/PointReach-v0", render_mode="human")
env.reset(seed=0)
"""
NO_DISPLAY = {"PATH": os.environ["PATH"], "PYGAME_HIDE_SUPPORT_PROMPT": "1", "COLUMNS": "400"}


def run(code, **environment):
    """Run a program in a process without a display, with the given environment variables."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=NO_DISPLAY | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems always have a display")
def test_window_without_a_display_raises_an_error():
    """Without a check, SDL would use a driver that shows nothing."""
    ran = run(HUMAN)
    assert ran.returncode == 1
    assert "RuntimeError: cannot open a window: " in ran.stderr
    assert 'or render_mode="rgb_array"' in ran.stderr


def test_driver_that_shows_nothing_can_be_chosen_by_name():
    ran = run(HUMAN, SDL_VIDEODRIVER="dummy")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"MUJOCO_GL": " EGL"}, "0"),
        ({"MUJOCO_GL": "egl", "SDL_FRAMEBUFFER_ACCELERATION": "1"}, "1"),
    ],
)
def test_window_does_not_use_gl_if_mujoco_uses_egl(variables, expected, monkeypatch):
    """X11 kills a process that uses GLX and EGL, with the error BadAccess."""
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM", "SDL_FRAMEBUFFER_ACCELERATION"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    Window().close()
    assert os.environ.get("SDL_FRAMEBUFFER_ACCELERATION") == expected


@pytest.mark.parametrize("left", [None, types.ModuleType("pygame")], ids=["nothing", "an empty folder"])
@pytest.mark.parametrize("mode", ["rgb_array", "human"])
def test_rendering_without_pygame_names_the_extra(left, mode, monkeypatch):
    """Uninstalling pygame or pygame-ce removes files of the other package, and can leave a folder."""
    monkeypatch.setitem(sys.modules, "pygame", left)
    with pytest.raises(DependencyNotInstalled, match=r'run: pip install "her-toolkit\[render\]"'):
        TaskEnv(PointReach(), render_mode=mode)
    TaskEnv(PointReach()).reset()
