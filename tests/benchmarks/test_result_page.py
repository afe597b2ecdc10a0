"""Pages of results: cells, verdicts and sections."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from rich.console import Console

from benchmarks.result_page import (
    Grid,
    Page,
    at_least,
    at_most,
    command_line,
    provenance,
    requirement_grid,
    spread,
)


def test_spread_shows_median_and_range():
    assert spread(np.array([0.2, 1.0, 0.9])) == "0.90 (0.20 to 1.00)"
    assert (spread([1.0, 1.0]), spread([]), spread([3, 1_000], ",.0f")) == ("1.00", "", "502 (3 to 1,000)")


@pytest.mark.parametrize(
    ("requirement", "row"),
    [
        (at_least("a", 2, 2.0), ["a", "2", "≥ 2", "", "met"]),
        (at_least("a", 2, 1.99), ["a", "1.99", "≥ 2", "", "MISSED"]),
        (at_least("a", 2, 3.0, hoped=3), ["a", "3", "≥ 2", "≥ 3", "hoped bound met"]),
        (at_most("a", 2, 2.01), ["a", "2.01", "≤ 2", "", "MISSED"]),
        (at_most("a", 2, 1.5, hoped=1), ["a", "1.5", "≤ 2", "≤ 1", "met"]),
        (at_most("a", 2, None), ["a", "", "≤ 2", "", "not measured"]),
        (at_most("a", None, 0.12345), ["a", "0.123", "", "", "no promise"]),
    ],
)
def test_verdict_compares_the_measurement_with_the_bounds(requirement, row):
    hoping = at_least("b", 1, 1.0, hoped=2)
    assert requirement_grid([requirement, hoping]).rows[0] == row


def test_quick_measurement_is_not_judged():
    assert requirement_grid([at_least("a", 2, 1.0)], quick=True).rows[0][-1] == "no promise at this size"


def test_page_has_all_sections_in_order(tmp_path, capsys):
    facts = provenance(command_line("a.b", ["--out", "a file"]), datetime(2026, 3, 1, tzinfo=UTC), ["rich"])
    grid = Grid("Told", ["n", "what"], [["1", "[x]"], ["2", "MISSED"]])
    page = Page("On this", "It is so.\n", [grid], facts, "\nSo it was done.", "on.png")
    page.publish(tmp_path / "new" / "on.md", Console())
    shown, text = capsys.readouterr().out, (tmp_path / "new" / "on.md").read_text(encoding="utf-8")
    assert text.startswith("# On this\n\n![On this](on.png)\n\nIt is so.\n\n## Told\n\n| n | what |\n")
    assert "## How it was measured\n\n- command: `python -m a.b --out 'a file'`\n- date: 2026-03-01" in text
    assert text.endswith("\n\nSo it was done.\n")
    for told in ("date: 2026-03-01", "gymnasium 1.", "rich 1", "[x]", "MISSED", "written to"):
        assert told in shown
