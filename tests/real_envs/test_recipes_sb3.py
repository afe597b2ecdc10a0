"""docs/recipes.md: the code for Stable-Baselines3 runs, with the settings of the recipes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from her_agents import Config
from her_agents.algorithms.options import SACOptions
from her_agents.recipes import read_recipe, recipe_names
from her_wrappers.integrations.sb3 import HerReplayBuffer

pytestmark = [pytest.mark.real_envs, pytest.mark.filterwarnings("ignore")]

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
CODE = dict(re.findall(r"```py\n# ([^\n]+) in Stable-Baselines3\n(.*?)```", PAGE, re.DOTALL))
RECIPES = {
    recipe.environment + " with demonstrations" * ("demos" in recipe.options): recipe
    for recipe in map(read_recipe, recipe_names())
}


@pytest.mark.parametrize("title", CODE)
def test_stable_baselines3_trains_with_the_settings_of_the_recipe(title):
    recipe = RECIPES[title]
    assert f"model.learn({recipe.options['steps']:_})" in CODE[title]
    starts = recipe.options["learning_starts"]
    code = re.sub(r"model\.learn\(\S+\)", "model.learn(816)", CODE[title])
    names: dict = {}
    # After 800 steps of 8 environments, all have completed an episode: none is longer than 100 steps.
    exec(code.replace(f"learning_starts={starts:_}", "learning_starts=800"), names)
    model = names["model"]
    assert f"learning_starts={starts:_}" in CODE[title]
    assert isinstance(model.replay_buffer, HerReplayBuffer)
    assert model._n_updates > 0
    config = Config(**recipe.options)
    buffer = model.replay_buffer_kwargs
    settings = {
        "gamma": model.gamma,
        "batch_size": model.batch_size,
        "updates_per_step": model.gradient_steps / model.n_envs,
        "num_envs": model.n_envs,
        "linear_schedule": callable(model.learning_rate),
        "info_keys": ("crashed",) if buffer.get("copy_info_dict") else (),
    }
    assert settings == {name: getattr(config, name) for name in settings}
    goals = {"goal_selection_strategy": "future", "n_sampled_goal": 4} | buffer
    assert config.goal_options().items() <= goals.items()
    assert buffer.get("termination") == config.termination
    assert ("demonstrations" in buffer) == (config.demos is not None)
    if config.demos is not None:
        assert config.demos.partition(":")[2] == names["fetch_pick_and_place"].__name__
        assert len(buffer["demonstrations"].episodes) == config.demo_episodes
        assert buffer["demonstrations"].share == config.demo_share
    agent = config.agent
    assert model.policy.net_arch == agent["hidden"]
    assert str(model.ent_coef) == f"{'auto_' * agent['learn_temperature']}{agent['temperature']}"
    assert model.tau == SACOptions().tau
    assert model.lr_schedule(1) == SACOptions().learning_rate
    if config.linear_schedule:
        assert model.lr_schedule(0) == 0


def test_every_measured_recipe_has_a_program_or_changes_of_one_for_stable_baselines3():
    # Stable-Baselines3 does not accept the nested observations of the bundled recipe, and clones no behavior.
    measured = {
        title
        for title, recipe in RECIPES.items()
        if recipe.measured is not None and recipe.package and "bc_weight" not in recipe.options["agent"]
    }
    changed = set(
        re.findall(r"^\| (\S+) \| [^|]* \|$", PAGE.partition("| task | changes |")[2], re.MULTILINE)
    )
    assert measured <= CODE.keys() | changed
