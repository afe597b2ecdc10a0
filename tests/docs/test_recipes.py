"""The page on recipes: every recipe has a row, with the numbers of its result page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from her_agents.recipes import read_recipe, recipe_names

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "recipes.md").read_text()


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_has_a_row_with_its_measured_result(name):
    row = re.search(rf"^\| .*`{name}`.*$", PAGE, re.MULTILINE).group()
    measured = read_recipe(name).measured
    if measured is None:
        assert "not measured yet" in row or "| MISSED: " in row
        return
    for text in (f"| {measured.steps:,} |", f"| {measured.minutes:.1f} |", f"| {measured.success:.2f} "):
        assert text in row
    results = (ROOT / "docs" / "results" / f"recipe_{name}.md").read_text()
    medians = re.search(r"^\| median .*$", results, re.MULTILINE).group()
    for text in (f"| {measured.steps:,} |", f"| {measured.minutes:.1f} |", f"| {measured.success:.2f} "):
        assert text in medians
    assert f"runs: {measured.seeds} of {measured.seeds}" in results


@pytest.mark.parametrize("name", [name for name in recipe_names() if read_recipe(name).policy.exists()])
def test_the_page_shows_each_trained_policy_in_a_small_picture(name):
    assert f"](images/{name}.gif)" in PAGE
    assert (ROOT / "docs" / "images" / f"{name}.gif").stat().st_size < 300_000
