"""The studies ``recipe`` and ``ablation`` with very short runs, and their verdicts."""

from __future__ import annotations

from functools import partial

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
workers = 1
evaluation_episodes = 2
agent = { hidden = [4] }
"""


@pytest.fixture(autouse=True, name="folder")
def use_one_recipe(tmp_path, monkeypatch):
    (tmp_path / "tiny.toml").write_text(RECIPE)
    monkeypatch.setattr("her_agents.recipes.FOLDER", tmp_path)
    monkeypatch.setattr(recipes, "TARGETS", {"tiny": recipes.Target(0.9, minutes=1)})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_recipe_has_a_target(monkeypatch):
    monkeypatch.undo()
    assert set(recipes.TARGETS) == set(recipe_names())


def test_recipe_is_trained_and_written_to_a_page(folder):
    result = do("recipe", "tiny", "--seeds", 2, "--out", folder / "out")
    assert result.exit_code == 0, result.output
    assert (folder / "runs" / "recipes" / "tiny-1" / "latest.pt").exists()
    page = (folder / "out" / "recipe_tiny.md").read_text()
    for text in ("Reach a point.", "steps to 0.95", "recipe_tiny.png", "2 of 2, seeds 0, 1"):
        assert text in page
    assert (
        "2 of 2 runs are complete already"
        in do("recipe", "tiny", "--seeds", 2, "--out", folder / "out").output
    )


def test_page_has_the_versions_of_the_package_and_no_processor_time_of_resumed_trainings(folder, monkeypatch):
    monkeypatch.setattr("benchmarks.studies.study.SIMULATORS", {"rich": ("rich",), "pygments": ("pygments",)})
    (folder / "tiny.toml").write_text(RECIPE.replace('package = ""', 'package = "rich"'))
    train = partial(do, "recipe", "tiny", "--seeds", 1, "--out", folder / "out")
    assert train().exit_code == 0
    page = folder / "out" / "recipe_tiny.md"
    assert ", rich " in page.read_text()
    assert "pygments" not in page.read_text()
    assert "processor time" in page.read_text()
    page.with_suffix(".csv").unlink()
    assert train().exit_code == 0
    assert "wall-clock time with --jobs" in page.read_text()
    assert "processor time" not in page.read_text()


def test_unknown_recipe_is_a_usage_error():
    result = do("recipe", "large")
    assert result.exit_code == 2
    assert "unknown recipe 'large'; choose from 'tiny'" in result.output


def results_with(*rates):
    study = recipes.make_study(len(rates), quick=False, name="tiny")
    return RunResults([result_of(run, each) for run, each in zip(study.runs, rates, strict=True)])


def test_medians_count_unsolved_trainings_as_infinite():
    results = results_with([0.0, 0.96, 0.9], [0.2, 0.3, 0.4], [0.95, 1.0, 1.0])
    solved_at = [recipes.solved_at(result, 0.95) for result in results.all]
    assert [solved and solved.env_steps for solved in solved_at] == [20, None, 10]
    verdicts = {requirement.what: requirement for requirement in recipes._judge(results)}
    assert verdicts["steps to 0.95, median"].measured == 20
    assert verdicts["success within 90 steps, median"].verdict == "met"
    mostly_unsolved = recipes._judge(results_with([0.0], [0.5], [1.0]))
    assert [requirement.verdict for requirement in mostly_unsolved] == ["MISSED", "MISSED", "MISSED", "met"]
    assert np.isinf(mostly_unsolved[1].measured)


def test_trainings_longer_than_the_target_miss_it_although_they_are_solved_earlier(monkeypatch):
    monkeypatch.setattr(recipes, "TARGETS", {"tiny": recipes.Target(0.9, minutes=1, hoped_minutes=0.5)})
    study = recipes.make_study(1, quick=False, name="tiny")
    results = RunResults([result_of(study.runs[0], [0.96, 0.96], seconds=61)])
    verdicts = {requirement.what: requirement.verdict for requirement in recipes._judge(results)}
    assert verdicts["minutes to 0.95, median"] == "hoped bound met"
    assert verdicts["minutes of the training, median"] == "MISSED"


def test_a_recipe_without_a_target_has_no_verdict(monkeypatch):
    monkeypatch.setattr(recipes, "TARGETS", {"tiny": None})
    assert recipes._judge(results_with([0.5, 1.0])) == []


def test_a_recipe_says_when_its_task_counts_as_solved(folder):
    (folder / "tiny.toml").write_text("solved = 0.70\n" + RECIPE)
    results = results_with([0.0, 0.7, 0.6])
    verdicts = {requirement.what: requirement for requirement in recipes._judge(results)}
    assert verdicts["steps to 0.70, median"].measured == 20
    assert recipes._tabulate(results).header[1:3] == ["steps to 0.70", "minutes to 0.70"]


def test_each_variant_of_the_ablation_is_trained_and_differs_in_its_option(folder, monkeypatch):
    monkeypatch.setattr(ablation, "STEPS", 40)
    (folder / "fetch_push.toml").write_text(
        RECIPE.replace("workers = 1", "workers = 0\nprioritized = true\ngamma = 0.95")
        + "updates_per_step = 0.375\ngoal_selection_strategy = { future = 0.75, random = 0.25 }\n"
    )
    reference, *variants = (run.config.as_dict() for run in ablation.make_study(1, quick=False).runs)
    assert reference["goal_selection_strategy"] == "future"
    assert reference["updates_per_step"] == 0.25
    differences = [
        {name for name in reference | variant if variant.get(name) != reference.get(name)}
        for variant in variants
    ]
    assert differences == [
        {"prioritized"},
        {"goal_selection_strategy"},
        {"goal_selection_strategy"},
        {"agent"},
        {"agent"},
        {"gamma"},
        {"updates_per_step"},
        {"agent"},
        {"clip_targets"},
    ]
    rates = [[0.0] * length for length in (3, 3, 9, 4, 5, 12, 3, 4, 4, 3)]
    runs = ablation.make_study(1, quick=False).runs
    figure = ablation._draw(RunResults(list(map(result_of, runs, rates))))
    for axes in figure.axes:
        assert axes.get_xlim() == pytest.approx((0, 0.12), rel=0.1), "no curve is longer than its axis"
    result = do("ablation", "--seeds", 1, "--jobs", 1, "--out", folder / "out")
    assert result.exit_code == 0, result.output
    assert (folder / "runs" / "ablation" / "gamma_0.98-0" / "latest.pt").exists()
    page = (folder / "out" / "ablation.md").read_text()
    for text in ("learned temperature", "steps to 0.95", "ablation.png", "10 of 10, seeds 0"):
        assert text in page
