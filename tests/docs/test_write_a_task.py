"""The page on writing a task: its example runs, and its environment passes the checks."""

import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "write_a_task.md").read_text()


@pytest.fixture(scope="module")
def names():
    """The names that the code of the page defines when it runs from top to bottom."""
    yield names_after(PAGE)
    del gym.registry["Ring-v0"]


def test_the_example_has_the_described_results(names):
    assert names["picture"].shape == (512, 512, 3)
    assert names["rewards"].shape == (4096,)
    assert names["env"].unwrapped.task.tolerance == names["envs"].task.tolerance == np.float32(0.1)


def test_the_example_passes_the_checker_of_gymnasium(names):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make("Ring-v0", render_mode="rgb_array").unwrapped)
