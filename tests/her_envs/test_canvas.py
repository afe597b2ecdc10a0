"""Drawing: without a display, in one shared window, and without pygame."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pygame
import pytest
from gymnasium.error import DependencyNotInstalled

from her_envs import canvas
from tests.her_envs.bundled import BIT_FLIPPING, VARIANTS, ids, make


@pytest.mark.parametrize("size", [256, 1024])
@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_pictures_have_the_size_asked_for_and_show_something(env_id, options, size):
    env = make(env_id, render_mode="rgb_array", render_size=size, **options)
    env.reset(seed=0)
    frame = env.render()
    assert (frame.shape, frame.dtype) == ((size, size, 3), np.uint8)
    assert len(np.unique(frame @ [1, 256, 65536])) >= 3
    assert frame.flags.c_contiguous


def test_a_picture_follows_the_state_and_leaves_earlier_ones_alone():
    env = make(BIT_FLIPPING, render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    kept = before.copy()
    env.step(0)
    assert not np.array_equal(env.render(), before)
    np.testing.assert_array_equal(before, kept)


def test_pictures_need_no_display():
    code = (
        "import gymnasium as gym, her_envs, pygame\n"
        "env = gym.make('her_envs/PointReach-v0', render_mode='rgb_array')\n"
        "env.reset(); env.render(); env.close()\n"
        "assert not pygame.display.get_init()\n"
    )
    environment = {"SDL_VIDEODRIVER": "no-such-driver", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_human_environments_share_the_window_and_the_last_one_closes_it():
    first, second = (make(BIT_FLIPPING, render_mode="human", render_size=64 * n) for n in (1, 2))
    first.metadata = second.metadata = first.metadata | {"render_fps": 1000}
    first.reset(seed=0)
    assert pygame.display.get_surface().get_size() == (64, 64)
    second.reset(seed=0)
    assert pygame.display.get_surface().get_size() == (128, 128)
    second.close()
    first.step(0)
    assert pygame.display.get_surface().get_size() == (64, 64)
    first.close()
    first.close()
    assert not pygame.display.get_init()


def test_rendering_without_pygame_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    for mode in ("rgb_array", "human"):
        with pytest.raises(DependencyNotInstalled, match=r'pip install "her-toolkit\[render\]"'):
            make(BIT_FLIPPING, render_mode=mode)
    make(BIT_FLIPPING).reset()


def test_rendering_without_a_mode_warns_and_draws_nothing():
    env = make(BIT_FLIPPING)
    env.reset()
    with pytest.warns(UserWarning, match="without a render mode draws nothing"):
        assert env.render() is None


@pytest.mark.parametrize("n_bits", [1, 7, 15, 50, 200])
def test_a_grid_of_bits_fits_its_box(n_bits):
    columns, cell = canvas._grid(n_bits, 200, 400)
    assert columns * cell <= 200
    assert -(-n_bits // columns) * cell <= 400
