"""parking-v0: the example in docs/stable_baselines3.md, and the environment of the recipe."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from her_agents.recipes.parking import make_parking
from her_wrappers import check_goal_env

pytestmark = [pytest.mark.real_envs, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("sb3_contrib", reason="sb3-contrib is missing: tests/real_envs/requirements.txt")

PAGE = (Path(__file__).parents[2] / "docs" / "stable_baselines3.md").read_text()


def test_tqc_parks_with_the_code_of_the_page():
    (code,) = re.findall(r"```py\n(# parking-v0\n.*?)```", PAGE, re.DOTALL)
    for long, short in (("100_000", "160"), ("starts=500", "starts=130"), ("[512, 512, 512]", "[16]")):
        assert long in code
        code = code.replace(long, short)
    code = code.replace("learning_rate=", "seed=0, learning_rate=")  # the lengths of episodes are random
    names: dict = {}
    exec(code, names)
    buffer = names["model"].replay_buffer.her_buffer
    assert len(buffer) >= 100
    batch = buffer.sample(500)
    after = batch.next_observations
    parked = names["is_parked"](after["achieved_goal"], after["desired_goal"], [{}] * 500)
    assert (batch.terminations[batch.relabeled] >= parked[batch.relabeled]).all()
    assert parked[batch.relabeled].any()


def test_the_environment_of_the_recipe_has_goal_functions_for_all_rewards_and_terminations():
    report = check_goal_env(make_parking, max_steps=60)
    assert not report.of_severity("error"), report.text()
    env = make_parking()
    _, info = env.reset(seed=0)
    terminated = False
    while not terminated:  # straight on, into the wall
        observation, reward, terminated, _, info = env.step(np.array([1.0, 0.0], np.float32))
    goals = observation["achieved_goal"], observation["desired_goal"]
    assert info["crashed"]
    assert reward == env.compute_reward(*goals, info) == env.compute_reward(*goals, {}) - 5
    assert env.compute_terminated(*goals, info)
    assert not env.compute_terminated(*goals, {})
    parked = np.stack([goals[1], goals[1]]), np.stack(goals[::-1])
    np.testing.assert_array_equal(env.compute_terminated(*parked, [{}, {}]), [True, False])
