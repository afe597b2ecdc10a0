"""Drawing: without a display, in one shared window, and without pygame."""

import numpy as np
import pygame
import pytest

from her_envs import canvas
from tests.support.bundled import BIT_FLIPPING, VARIANTS, ids, make


@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_pictures_have_the_requested_size_and_are_not_empty(env_id, options):
    env = make(env_id, render_mode="rgb_array", render_size=200, **options)
    env.reset(seed=0)
    frame = env.render()
    assert (frame.shape, frame.dtype) == ((200, 200, 3), np.uint8)
    assert len(np.unique(frame @ [1, 256, 65536])) >= 3
    assert frame.flags.c_contiguous


def test_environments_share_the_window_which_opens_again_after_the_close_of_one():
    first, second = (make(BIT_FLIPPING, render_mode="human", render_size=64 * n) for n in (1, 2))
    first.metadata = second.metadata = first.metadata | {"render_fps": 1000}
    first.reset(seed=0)
    assert pygame.display.get_surface().get_size() == (64, 64)
    second.reset(seed=0)
    assert pygame.display.get_surface().get_size() == (128, 128)
    second.close()
    assert not pygame.display.get_init()
    first.step(0)
    assert pygame.display.get_surface().get_size() == (64, 64)
    first.close()
    first.close()
    assert not pygame.display.get_init()


def test_trail_shows_only_the_current_episode():
    options = {"goal": [0.9, 0.9], "state": [0.5, 0.5]}
    env = make("her_envs/PointReach-v0", render_mode="rgb_array", render_size=256)
    env.reset(options=options)
    start = env.render()
    for action in ([1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]):
        env.step(action)
    assert not np.array_equal(env.render(), start), "moving away and back leaves a trail"
    env.reset(options=options)
    np.testing.assert_array_equal(env.render(), start)


def test_pressed_keys_are_returned_once_and_closing_counts_as_escape():
    window = canvas.Window()
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_3))
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_LEFT))
    assert window.pressed_keys() == {"3", "left"}
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    assert window.pressed_keys() == {"escape"}
    window.close()
