"""``her train --recipe``, ``her train --recipes`` and ``her watch --recipe``."""

import json
import re
from pathlib import Path

import pytest

from her_agents import export_policy
from tests.support.commands import fails, her, succeeds

RECIPE = """
environment = "PointReach-v0"
task = "Reach a point."
package = ""
install = ""

[options]
env = "her_envs/PointReach-v0"
algo = "sac"
steps = 60
learning_starts = 50
steps_per_epoch = 60
evaluation_episodes = 2
num_envs = 2

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
    succeeds("train", "--recipe", "reach", *options)
    folder = recipes.parent / "runs" / "reach-sac-3"
    config = json.loads((folder / "config.json").read_text())
    assert (config["steps"], config["seed"]) == (60, 3)
    assert config["agent"] == {"hidden": [8], "temperature": 0.3}, "other entries of the table remain"
    fails(2, "no trained policy; run `her train --recipe reach`", "watch", "--recipe", "reach")
    export_policy(folder, recipes / "reach.policy")
    assert "3 episodes" in succeeds("watch", "--recipe", "reach", "--no-show", "--episodes", 3)


def test_recipes_are_listed_with_their_results(recipes):
    assert "not measured" in her("train", "--recipes").output
    measured = "[measured]\nsteps = 12_000\nminutes = 1.5\nsuccess = 0.97\nseeds = 3\n"
    (recipes / "reach.toml").write_text("solved = 0.70\n" + RECIPE + measured)
    output = succeeds("train", "--recipes")
    for text in ("reach: Reach a point.", "sac: ", "0.70", "12,000", "1.5", "0.97"):
        assert text in output


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
    succeeds(*command)
    other = her(*command, f"{module}:RewardScaled", "--seed", 1)
    assert other.exit_code == 3, "the findings are known of the recipe's environment only"


OTHERS = """
termination = "success"
info_keys = ["crashed"]
clip_targets = false
"""


@pytest.fixture(name="foreign")
def recipe_with_a_missing_package(recipes):
    changes = {
        'package = ""': 'package = "no_such_arm"',
        'install = ""': 'install = "pip install no-such-arm"',
        "num_envs = 2": f"num_envs = 2{OTHERS}",
    }
    text = RECIPE
    for old, new in changes.items():
        text = text.replace(old, new)
    (recipes / "reach.toml").write_text(text)


@pytest.mark.usefixtures("foreign")
def test_another_environment_gets_only_the_options_of_the_learner():
    given = ["her_envs/PointPush-v0", "--info-keys", "is_success", "--no-check", "--no-tensorboard"]
    output = succeeds("train", *given, "--recipe", "reach", "--out", "run")
    left_out = "clip_targets=False, env_kwargs={'max_steps': 6}, info_keys=['crashed'], termination='success'"
    assert left_out in output
    config = json.loads(Path("run/config.json").read_text())
    assert (config["env"], config["env_kwargs"]) == ("her_envs/PointPush-v0", {})
    assert (config["termination"], config["info_keys"]) == (None, ["is_success"])
    assert config["clip_targets"] is True
    assert (config["steps"], config["agent"]) == (60, {"hidden": [8], "temperature": 0.2})


@pytest.mark.usefixtures("foreign")
def test_the_environment_of_the_recipe_needs_its_package():
    Path("mine.toml").write_text('env = "her_envs/PointReach-v0"\n')
    message = "the recipe 'reach' needs no_such_arm; run: pip install no-such-arm"
    for words in (["train"], ["train", "her_envs/PointReach-v0"], ["train", "--config", "mine.toml"]):
        fails(2, message, *words, "--recipe", "reach")
    fails(2, message, "watch", "--recipe", "reach")


@pytest.mark.usefixtures("foreign")
def test_discrete_actions_with_a_recipe_for_box_actions_name_the_option_to_change():
    words = ["train", "her_envs/BitFlipping-v0", "--recipe", "reach", "--no-check"]
    fails(2, "use dqn", *words)
    fails(2, "temperature", *words, "--algo", "dqn")
