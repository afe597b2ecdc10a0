"""The quickstart: a short run as a user starts it, with its table and pictures."""

import contextlib
import io
from functools import partial
from unittest import mock

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from examples.quickstart import main, train
from her_agents.training.evaluation import evaluate
from her_wrappers import check_goal_env


@pytest.fixture(name="finished", scope="module")
def run_quickstart(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "deeper"
    printed = io.StringIO()
    short_check = mock.patch("examples.quickstart.check_goal_env", partial(check_goal_env, max_steps=300))
    with contextlib.redirect_stdout(printed), short_check:
        main(bits=4, steps=200, seed=3, out=out)
    return printed.getvalue(), out


def test_prints_a_table_and_the_paths_of_the_pictures(finished):
    output, out = finished
    assert "Goal interface of her_envs/BitFlipping-v0: 0 errors, 0 warnings" in output
    for text in ("with HER", "without HER", "success rate", str(out / "rollout.gif")[:40]):
        assert text in output


def test_pictures_are_written_and_not_empty(finished):
    _, out = finished
    with Image.open(out / "learning_curve.png") as picture:
        curve = np.asarray(picture.convert("RGB"))
    for color in ((31, 119, 180), (255, 127, 14)):
        assert (curve == color).all(axis=-1).sum() > 100, "each run has a line"
    with Image.open(out / "rollout.gif") as rollout:
        assert rollout.size == (360, 360)
        assert rollout.n_frames > 3


@pytest.mark.parametrize(
    ("bits", "steps"),
    [
        pytest.param(12, 8_000, marks=pytest.mark.slow),
        pytest.param(15, 20_000, marks=pytest.mark.campaign),
    ],
)
def test_dqn_learns_with_her_and_not_without(bits, steps):
    env = gym.make("her_envs/BitFlipping-v0", n_bits=bits)
    rates = {
        her: evaluate(
            env, train(bits, steps, 1, her=her, show=lambda run: None).agent.act, 100, 7
        ).success_rate
        for her in (True, False)
    }
    assert rates[True] >= 0.95
    assert rates[False] <= 0.05


@pytest.mark.parametrize(
    ("bits", "steps", "least"),
    [
        pytest.param(5, 10_000, 0.95, marks=pytest.mark.campaign),
        pytest.param(10, 50_000, 0.9, marks=pytest.mark.campaign),
    ],
)
def test_the_arm_without_her_differs_only_in_relabeling(bits, steps, least):
    run = train(bits, steps, 0, her=False, show=lambda run: None)
    env = gym.make("her_envs/BitFlipping-v0", n_bits=bits)
    assert evaluate(env, run.agent.act, 100, 7).success_rate >= least
