"""Pages of results: cells, requirements and sections."""

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
    compared_with,
    in_words,
    measured_grid,
    provenance,
    spread,
)


def test_spread_shows_median_and_range():
    assert spread(np.array([0.2, 1.0, 0.9])) == "0.90 (0.20 to 1.00)"
    assert (spread([1.0, 1.0]), spread([]), spread([3, 1_000], ",.0f")) == ("1.00", "", "502 (3 to 1,000)")


@pytest.mark.parametrize(
    ("requirement", "is_met", "text"),
    [
        (at_least("speed", 2, 2.0), True, "speed is 2; at least 2 is required"),
        (at_least("speed", 2, 1.99), False, "speed is 1.99; at least 2 is required"),
        (at_most("time", 2_000, 2_010.4), False, "time is 2,010; at most 2,000 is required"),
        (at_most("time", 2, None), None, "time is not measured; at most 2 is required"),
        (at_most("time", None, 0.12345), None, "time is 0.123; at most  is required"),
    ],
)
def test_a_requirement_compares_the_measurement_with_its_bound(requirement, is_met, text):
    assert requirement.is_met is is_met
    assert str(requirement) == text
    assert measured_grid("G", [requirement]).rows == [[requirement.what, requirement.value]]


def test_a_ratio_of_times_says_faster_or_slower():
    assert [in_words(each) for each in (22.49, 1.387, 0.721)] == [
        "22 times faster",
        "1.4 times faster",
        "1.4 times slower",
    ]
    assert [compared_with("X", each) for each in (1.387, 1.03, 0.97)] == [
        "1.4 times faster than X",
        "about as fast as X",
        "about as fast as X",
    ]


def test_page_begins_with_question_answer_picture_and_table(tmp_path, capsys):
    facts = provenance(command_line("a.b", ["--out", "a file"]), datetime(2026, 3, 1, tzinfo=UTC), ["rich"])
    grid = Grid("Times", ["n", "what"], [["1", "[x]"]])
    missed = [at_least("speed", 2, 1.0)]
    page = Page(
        "How fast?", "So fast.", [grid], facts, "\nAs told.", "on.svg", missed, [Grid("More", ["a"], [])]
    )
    page.publish(tmp_path / "new" / "on.md", Console())
    shown, text = capsys.readouterr().out, (tmp_path / "new" / "on.md").read_text(encoding="utf-8")
    assert text.startswith("# How fast?\n\nSo fast.\n\n![How fast?](on.svg)\n\n## Times\n\n| n | what |\n")
    assert (
        "\n\n## Below the requirements of this project\n\n- speed is 1; at least 2 is required\n\n## How"
        in text
    )
    assert "## How it was measured\n\n- command: `python -m a.b --out 'a file'`\n- date: 2026-03-01" in text
    assert text.endswith("\n\nAs told.\n\n### More\n\n| a |\n|---|\n")
    for told in (
        "date: 2026-03-01",
        "gymnasium 1.",
        "rich 1",
        "[x]",
        "speed is 1;",
        "written to",
    ):
        assert told in shown
