"""Scripted controllers, whose episodes are demonstrations, solve their tasks."""

import numpy as np
import pytest

from her_agents.recipes import controllers
from her_agents.training.demonstrations import record_successes
from her_wrappers.goals.environments import make_env

pytestmark = [pytest.mark.real_envs, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    ("env", "controller"),
    [
        ("gymnasium_robotics:FetchPickAndPlace-v4", controllers.fetch_pick_and_place),
        ("her_agents.recipes.panda:make_panda_stack", controllers.panda_stack),
    ],
)
def test_at_least_four_of_five_episodes_succeed(env, controller, monkeypatch):
    monkeypatch.setattr("her_agents.training.demonstrations.ATTEMPTS", 1.25)
    rng = np.random.default_rng(0)
    assert len(record_successes(make_env(env), controller, count=4, noise=0.1, rng=rng)) == 4
