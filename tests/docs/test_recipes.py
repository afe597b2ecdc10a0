"""The measured results of the recipes are those of their result pages, and each policy has a picture."""

from pathlib import Path

import pytest

from her_agents.recipes import read_recipe, recipe_names
from tools.tables import RESULTS, row_of

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", [name for name in recipe_names() if read_recipe(name).measured])
def test_the_measured_result_is_that_of_the_result_page(name):
    measured = read_recipe(name).measured
    page = RESULTS / f"recipe_{name}.md"
    medians = [cell.split()[0] for cell in row_of(page, "median")]
    assert medians == [f"{measured.steps:,}", f"{measured.minutes:.1f}", f"{measured.success:.2f}"]
    assert f"runs: {measured.seeds} of {measured.seeds}" in page.read_text()


@pytest.mark.parametrize("name", [name for name in recipe_names() if read_recipe(name).policy.exists()])
def test_the_page_shows_each_trained_policy_in_a_picture_of_less_than_a_megabyte(name):
    assert f"](images/{name}.gif)" in (DOCS / "recipes.md").read_text()
    assert (DOCS / "images" / f"{name}.gif").stat().st_size < 900_000
