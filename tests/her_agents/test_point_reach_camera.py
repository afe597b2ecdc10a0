"""The environment of the recipe point_reach_camera: the picture shows y, and the vector has only x."""

import numpy as np
import pytest

from her_agents.recipes.point_reach_camera import make_point_reach_camera
from her_wrappers import check_goal_env


def seen_at(*position, goal=(0.5, 0.5)):
    """Return the observation at a position, and the achieved goal."""
    options = {"state": np.float32(position), "goal": np.float32(goal)}
    observation, _ = make_point_reach_camera().reset(options=options)
    return observation["observation"], observation["achieved_goal"]


def center(camera):
    """Return column and row of the middle of the blue point."""
    darkness = 250 - camera[..., 0].astype(float)
    return [(darkness.sum(axis) * np.arange(36)).sum() / darkness.sum() for axis in (0, 1)]


@pytest.mark.parametrize("position", [(0, 0), (1, 1), (0.5, 0.5), (0.31, 0.9)])
def test_the_picture_shows_the_position_to_a_tenth_of_the_success_radius(position):
    seen, achieved = seen_at(*position)
    x, y = np.multiply(position, 36 / 1.24) + (0.12 * 36 / 1.24 - 0.5)
    np.testing.assert_allclose(center(seen["camera"]), [x, 35 - y], atol=0.1 * 0.05 * 36 / 1.24)
    np.testing.assert_allclose(achieved, position)


def test_joints_show_only_x_and_the_camera_does_not_show_the_goal():
    here, there, elsewhere = (
        seen_at(0.3, y, goal=goal)[0] for y, goal in ((0.2, (0, 0)), (0.2, (1, 1)), (0.7, (0, 0)))
    )
    np.testing.assert_array_equal(here["camera"], there["camera"])
    assert here["joints"] == there["joints"] == elsewhere["joints"] == np.float32(0.3)
    assert (here["camera"] != elsewhere["camera"]).any()


def test_the_environment_has_no_findings():
    report = check_goal_env(make_point_reach_camera, max_steps=100)
    assert not report.findings, report.text()
