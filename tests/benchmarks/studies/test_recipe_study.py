"""The studies ``recipe`` and ``ablation`` with very short runs, and their requirements."""

import numpy as np
import pytest

from benchmarks.studies import ablation, recipes
from benchmarks.studies.results_file import RunResults
from her_agents.recipes import recipe_names
from tests.support.studies import do, result_of

RECIPE = """
environment = "PointReach-v0"
task = "Reach a point."
package = ""
install = ""

[options]
env = "her_envs/PointReach-v0"
env_kwargs = { max_steps = 5 }
algo = "sac"
steps = 90
steps_per_epoch = 30
learning_starts = 20
batch_size = 8
num_envs = 2
evaluation_episodes = 2
agent = { hidden = [4] }
"""


@pytest.fixture(autouse=True, name="folder")
def use_one_recipe(tmp_path, monkeypatch):
    (tmp_path / "tiny.toml").write_text(RECIPE)
    monkeypatch.setattr("her_agents.recipes.FOLDER", tmp_path)
    monkeypatch.setattr(recipes, "TARGETS", {"tiny": recipes.Target(0.9, minutes=1, total_minutes=1)})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def results_with(*rates, **options):
    study = recipes.make_study(len(rates), quick=False, name="tiny")
    return RunResults([result_of(run, each, **options) for run, each in zip(study.runs, rates, strict=True)])


def test_every_recipe_has_a_target(monkeypatch):
    monkeypatch.undo()
    assert set(recipes.TARGETS) == set(recipe_names())


def test_recipe_is_trained_and_continues_from_its_checkpoints(folder, monkeypatch):
    monkeypatch.setattr("benchmarks.studies.study.SIMULATORS", {"rich": ("rich",)})
    (folder / "tiny.toml").write_text(RECIPE.replace('package = ""', 'package = "rich"'))
    arguments = ("recipe", "tiny", "--seeds", 2, "--jobs", 1, "--out", folder / "out")
    assert do(*arguments).exit_code == 0
    assert (folder / "runs" / "recipes" / "tiny-1" / "latest.pt").exists()
    page = folder / "out" / "recipe_tiny.md"
    for text in ("Reach a point.", "steps until 0.95", "2 of 2, seeds 0, 1", ", rich ", "processor time"):
        assert text in page.read_text()
    page.with_suffix(".csv").unlink()
    assert do(*arguments).exit_code == 0
    assert "processor time" not in page.read_text(), "unknown for runs that were continued"


def test_medians_count_unsolved_runs_as_infinite():
    results = results_with([0.0, 0.96, 0.9], [0.2, 0.3, 0.4], [0.95, 1.0, 1.0])
    verdicts = {requirement.what: requirement for requirement in recipes._judge(results)}
    assert verdicts["steps until 0.95, median"].measured == 20
    assert verdicts["success within 90 steps, median"].is_met
    mostly_unsolved = recipes._judge(results_with([0.0], [0.5], [1.0]))
    assert [requirement.is_met for requirement in mostly_unsolved] == [False, False, False, True]
    assert np.isinf(mostly_unsolved[1].measured)


def test_runs_longer_than_the_target_miss_it_although_they_are_solved_earlier():
    results = results_with([0.96, 0.96], seconds=61)
    is_met = {requirement.what: requirement.is_met for requirement in recipes._judge(results)}
    assert is_met["minutes until 0.95, median"]
    assert is_met["minutes of the run, median"] is False


def test_each_variant_of_the_ablation_is_trained_and_differs_in_its_option(folder, monkeypatch):
    monkeypatch.setattr(ablation, "STEPS", 40)
    (folder / "fetch_push.toml").write_text(
        RECIPE.replace("num_envs = 2", "num_envs = 2\nprioritized = true\ngamma = 0.95")
        + "updates_per_step = 0.375\ngoal_selection_strategy = { future = 0.75, random = 0.25 }\n"
    )
    reference, *variants = (run.config.as_dict() for run in ablation.make_study(1, quick=False).runs)
    for variant in variants:
        assert len([name for name in variant if variant[name] != reference[name]]) == 1
    result = do("ablation", "--seeds", 1, "--jobs", 1, "--out", folder / "out")
    assert result.exit_code == 0, result.output
    assert (folder / "runs" / "ablation" / "gamma_0.98-0" / "latest.pt").exists()
    page = (folder / "out" / "ablation.md").read_text()
    for text in ("learned temperature", "steps until 0.95", "ablation.svg", "10 of 10, seeds 0"):
        assert text in page
