"""Recipes: their files, their options, and their policies."""

import pytest

from her_agents.algorithms.registry import ALGORITHMS
from her_agents.recipes import read_recipe, recipe_names
from her_agents.training.checkpoints import load_agent
from her_agents.training.config import make_config
from her_agents.training.sources import make_single_env

NAMES = recipe_names()
MAX_POLICY_SIZE = 2_000_000  # bytes


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_is_a_valid_config(name):
    recipe = read_recipe(name)
    config = make_config(recipe.options)
    assert config.algo in ALGORITHMS
    assert recipe.task.endswith(".")
    if recipe.package:
        assert recipe.install.startswith("pip install ")
    else:
        recipe.require_installed()
        assert recipe.install == ""
        make_single_env(config).close()


@pytest.mark.parametrize("name", NAMES)
def test_every_measured_recipe_has_a_small_policy_that_loads(name):
    recipe = read_recipe(name)
    assert recipe.policy.exists() == (recipe.measured is not None)
    if recipe.measured is not None:
        assert recipe.policy.stat().st_size < MAX_POLICY_SIZE
        load_agent(recipe.policy)


@pytest.mark.parametrize("name", NAMES)
def test_options_for_another_environment_describe_the_learner_only(name):
    recipe = read_recipe(name)
    options = recipe.options_for("mine:Arm")
    assert make_config(options).env == "mine:Arm"
    assert {"algo", "agent", "num_envs", "gamma"} <= options.keys()
    assert not {"env_kwargs", "termination", "info_keys", "demos", "start_share"} & options.keys()
    assert recipe.options_for(recipe.options["env"]) == recipe.options_for(None) == recipe.options
