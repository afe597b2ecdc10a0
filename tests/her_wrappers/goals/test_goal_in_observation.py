"""find_goal_in_observation, for observations of a point that moves at random."""

import numpy as np
import pytest

from her_wrappers.goals.in_observation import find_goal_in_observation

EPISODES, STATES = 20, 31


def described(extra, *, nested=False):
    """Return the description for observations with the position and the values of a function ``extra``."""
    rng = np.random.default_rng(0)
    path = rng.uniform(-0.2, 0.2, (EPISODES, STATES, 2)).cumsum(1) + rng.uniform(-1, 1, (EPISODES, 1, 2))
    achieved = path.reshape(-1, 2).astype(np.float32)
    desired = rng.uniform(-1, 1, (EPISODES, 2)).astype(np.float32).repeat(STATES, 0)
    more = np.array(
        [np.atleast_1d(extra(*goals)) for goals in zip(achieved, desired, strict=True)], np.float32
    )
    seen = {"a": achieved, "b": more} if nested else np.concatenate([achieved, more], 1)
    observations = {"observation": seen, "achieved_goal": achieved, "desired_goal": desired}
    return find_goal_in_observation(observations, np.arange(EPISODES).repeat(STATES))


def rotated(vector, angle):
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([cos * vector[0] - sin * vector[1], sin * vector[0] + cos * vector[1]])


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        (lambda a, d: d, "{} is a linear function of desired_goal"),
        (lambda a, d: d - a, "{} is a linear function of desired_goal and achieved_goal"),
        (lambda a, d: np.linalg.norm(d - a), "the distance of desired_goal and achieved_goal"),
        (lambda a, d: d[0] - a[1], "is a linear function of desired_goal and achieved_goal"),
        (lambda a, d: np.arctan2(*(d - a)[::-1]), "of the direction from achieved_goal to desired_goal"),
        (lambda a, d: rotated(d - a, 5 * a[0]), "{} is the desired_goal relative to the achieved_goal"),
    ],
)
def test_an_observation_with_the_goal_is_described(extra, text):
    assert text.format("observation[2:4]") in described(extra)
    assert text.format("observation/b") in described(extra, nested=True)


@pytest.mark.parametrize("extra", [lambda a, d: a**2, lambda a, d: np.sin(9 * a[0])])
def test_functions_of_the_achieved_goal_alone_are_correct(extra):
    assert described(extra) is None


def test_squared_distances_that_do_not_depend_on_the_goal_are_correct():
    """Two components of the desired quaternion are always 0, so squares of the achieved ones remain."""
    rng = np.random.default_rng(0)
    yaw, goal = rng.uniform(-np.pi, np.pi, (2, EPISODES * STATES))
    zero = np.zeros_like(yaw)
    observations = {
        "observation": np.stack([np.cos(yaw), np.sin(yaw)], 1),
        "achieved_goal": np.stack([np.cos(yaw / 2), zero, zero, np.sin(yaw / 2)], 1),
        "desired_goal": np.stack([zero, zero, np.sin(goal / 2), np.cos(goal / 2)], 1),
    }
    assert find_goal_in_observation(observations, np.arange(EPISODES).repeat(STATES)) is None
