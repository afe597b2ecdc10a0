"""The environments of the recipes panda_*: their seeds, their output, and their known findings."""

import numpy as np
import pytest

from her_agents.recipes import read_recipe
from her_agents.recipes.panda import make_panda_pick_and_place, make_panda_push, make_panda_stack
from her_wrappers import check_goal_env

pytestmark = [pytest.mark.real_envs, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("panda_gym", reason="panda-gym is missing: tests/real_envs/requirements.txt")


ENVIRONMENTS = pytest.mark.parametrize("make", [make_panda_pick_and_place, make_panda_push, make_panda_stack])


def starts(make, seed):
    """Return positions, (n, 3), of blocks and goals in the first states of three episodes."""
    env = make()
    states = [env.reset(seed=seed)[0], env.reset()[0], env.reset()[0]]
    return np.reshape([[state["achieved_goal"], state["desired_goal"]] for state in states], (-1, 3))


@ENVIRONMENTS
def test_a_seed_determines_all_later_episodes(make):
    first = starts(make, seed=1)
    np.testing.assert_array_equal(first, starts(make, seed=1))
    assert len(np.unique(first, axis=0)) == len(first), "no position occurs twice"
    assert not np.array_equal(first, starts(make, seed=2))


@ENVIRONMENTS
def test_making_the_environment_prints_nothing(make, capfd):
    make().close()
    print("as before")
    assert capfd.readouterr().out == "as before\n"


@ENVIRONMENTS
def test_the_recipe_knows_all_errors_of_the_environment(make):
    report = check_goal_env(make, max_steps=200)
    codes = {finding.code for finding in report.of_severity("error")}
    assert "GE402" in codes
    assert codes <= set(read_recipe(make.__name__.removeprefix("make_")).known_findings), report.text()
