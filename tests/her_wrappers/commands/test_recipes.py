"""``her train --recipe``, ``her train --recipes`` and ``her watch --recipe``."""

import json
import re
from pathlib import Path

import pytest

from her_agents import export_policy
from tests.support.commands import her

RECIPE = """
environment = "PointReach-v0"
task = "Reach a point."
package = ""
install = ""

[options]
env = "her_envs/PointReach-v0"
algo = "sac"
steps = 200
learning_starts = 50
steps_per_epoch = 100
evaluation_episodes = 2
num_envs = 2
history_every = 0

[options.env_kwargs]
max_steps = 6

[options.agent]
hidden = [8]
temperature = 0.2
"""


@pytest.fixture(name="recipes")
def folder_of_recipes(tmp_path, monkeypatch):
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "reach.toml").write_text(RECIPE)
    monkeypatch.setattr("her_agents.recipes.FOLDER", folder)
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_recipe_is_trained_and_its_policy_is_watched(recipes):
    options = ["--seed", 3, "--no-tensorboard", "--no-check", "--agent", "temperature=0.3"]
    result = her("train", "--recipe", "reach", *options)
    assert result.exit_code == 0, result.output
    folder = recipes.parent / "runs" / "reach-sac-3"
    config = json.loads((folder / "config.json").read_text())
    assert config["steps"] == 200
    assert config["seed"] == 3
    assert config["agent"] == {"hidden": [8], "temperature": 0.3}, "other entries of the table remain"
    assert "no trained policy; run `her train --recipe reach`" in her("watch", "--recipe", "reach").output
    export_policy(folder, recipes / "reach.policy")
    watched = her("watch", "--recipe", "reach", "--no-show", "--episodes", 3)
    assert watched.exit_code == 0, watched.output
    assert "3 episodes" in watched.output


def test_recipes_are_listed_with_their_results(recipes):
    assert "not measured" in her("train", "--recipes").output
    measured = "[measured]\nsteps = 12_000\nminutes = 1.5\nsuccess = 0.97\nseeds = 3\n"
    (recipes / "reach.toml").write_text("solved = 0.70\n" + RECIPE + measured)
    result = her("train", "--recipes")
    assert result.exit_code == 0, result.output
    for text in ("reach: Reach a point.", "sac: ", "0.70", "12,000", "1.5", "0.97"):
        assert text in result.stdout


def test_recipe_of_a_missing_package_names_the_command_that_installs_it(recipes):
    missing = RECIPE.replace('package = ""', 'package = "no_such_arm"').replace(
        'install = ""', 'install = "pip install no-such-arm"'
    )
    (recipes / "reach.toml").write_text(missing)
    for command in (["train", "--recipe", "reach"], ["watch", "--recipe", "reach"]):
        result = her(*command)
        assert result.exit_code == 2
        assert "the recipe 'reach' needs no_such_arm; run: pip install no-such-arm" in result.output


@pytest.mark.filterwarnings("ignore:.*compute_reward")
def test_known_findings_of_a_recipe_do_not_prevent_its_training(recipes):
    module = "tests.support.specimens.broken_rewards"
    recipe = RECIPE.replace("her_envs/PointReach-v0", f"{module}:OtherRadiusInStep")
    recipe = recipe.replace("max_steps = 6", "")
    (recipes / "reach.toml").write_text(recipe)
    command = ["train", "--recipe", "reach", "--no-tensorboard", "--check-steps", 300]
    stopped = her(*command)
    assert stopped.exit_code == 3, stopped.output
    found = sorted(set(re.findall(r"^error (\w+)", stopped.output, re.MULTILINE)))
    assert "GE101" in found
    (recipes / "reach.toml").write_text(f"known_findings = {json.dumps(found)}\n{recipe}")
    result = her(*command)
    assert result.exit_code == 0, result.output
    other = her(*command, f"{module}:RewardScaled", "--seed", 1)
    assert other.exit_code == 3, "the findings are known of the recipe's environment only"


MISTAKES = [
    (["train", "--recipe", "reech"], "unknown recipe 'reech'; choose from 'reach'"),
    (["train", "--recipe", "reach", "--resume", "runs/x"], "remove --out, --config and --recipe"),
    (["watch"], "expected either TARGET (an environment or a run) or --recipe NAME, got neither"),
    (["watch", "a.pt", "--recipe", "reach"], "or --recipe NAME, got both"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_bad_options_are_usage_errors(arguments, message, recipes):
    result = her(*arguments)
    assert result.exit_code == 2
    assert message in result.output


OTHERS = """
termination = "success"
info_keys = ["crashed"]
clip_targets = false
"""


@pytest.fixture(name="foreign")
def recipe_with_a_missing_package(recipes):
    text = RECIPE.replace('package = ""', 'package = "no_such_arm"').replace(
        "history_every = 0", f"history_every = 0{OTHERS}"
    )
    (recipes / "reach.toml").write_text(text)
    return recipes


def test_another_environment_gets_only_the_options_of_the_learner(foreign):
    given = ["her_envs/PointPush-v0", "--info-keys", "is_success", "--no-check", "--no-tensorboard"]
    result = her("train", *given, "--recipe", "reach", "--out", "run")
    assert result.exit_code == 0, result.output
    left_out = "clip_targets=False, env_kwargs={'max_steps': 6}, info_keys=['crashed'], termination='success'"
    assert left_out in result.stdout
    config = json.loads(Path("run/config.json").read_text())
    assert (config["env"], config["env_kwargs"]) == ("her_envs/PointPush-v0", {})
    assert (config["termination"], config["info_keys"], config["clip_targets"]) == (
        None,
        ["is_success"],
        True,
    )
    assert (config["steps"], config["agent"]) == (200, {"hidden": [8], "temperature": 0.2})


def test_the_environment_of_a_config_file_replaces_that_of_the_recipe(foreign):
    Path("mine.toml").write_text('env = "her_envs/PointMaze-v0"\nsteps = 100\ntermination = "keep"\n')
    result = her("train", "--recipe", "reach", "--config", "mine.toml", "--no-check", "--no-tensorboard")
    assert result.exit_code == 0, result.output
    config = json.loads(Path("runs/PointMaze-v0-sac-0/config.json").read_text())
    assert (config["env_kwargs"], config["termination"], config["info_keys"]) == ({}, "keep", [])


def test_the_environment_of_the_recipe_keeps_all_options_and_needs_the_package(foreign):
    Path("mine.toml").write_text('env = "her_envs/PointReach-v0"\n')
    for given in (["her_envs/PointReach-v0"], ["--config", "mine.toml"]):
        result = her("train", *given, "--recipe", "reach")
        assert (result.exit_code, "needs no_such_arm" in result.output) == (2, True)


@pytest.mark.parametrize("given", [[], ["--algo", "dqn"]])
def test_discrete_actions_with_a_recipe_for_box_actions_name_the_option_to_change(foreign, given):
    result = her("train", "her_envs/BitFlipping-v0", "--recipe", "reach", "--no-check", *given)
    assert result.exit_code == 2
    assert ("use dqn" if not given else "temperature") in result.output
