"""The environment of the recipe panda_push: its seeds, its output, and its known findings."""

from __future__ import annotations

import numpy as np
import pytest

from her_agents.recipes import read_recipe
from her_agents.recipes.panda import make_panda_push
from her_wrappers import check_goal_env

pytestmark = [pytest.mark.real_envs, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("panda_gym", reason="panda-gym is missing: tests/real_envs/requirements.txt")


def starts(seed):
    """Return block and goal positions of the first states of three episodes."""
    env = make_panda_push()
    states = [env.reset(seed=seed)[0], env.reset()[0], env.reset()[0]]
    return np.array([[state["achieved_goal"], state["desired_goal"]] for state in states])


def test_a_seed_determines_all_later_episodes():
    first = starts(seed=1)
    np.testing.assert_array_equal(first, starts(seed=1))
    assert len(np.unique(first.reshape(-1, 3), axis=0)) == 6, "no position occurs twice"
    assert not np.array_equal(first, starts(seed=2))


def test_making_the_environment_prints_nothing(capfd):
    make_panda_push().close()
    print("as before")
    assert capfd.readouterr().out == "as before\n"


def test_the_recipe_knows_all_errors_of_the_environment():
    report = check_goal_env(make_panda_push, max_steps=600)
    codes = {finding.code for finding in report.of_severity("error")}
    assert "GE402" in codes
    assert codes <= set(read_recipe("panda_push").known_findings), report.text()
