"""The page about recording: its examples print what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "recording.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_the_examples_print_what_the_page_shows(code, output, capsys):
    exec(code, {})
    assert capsys.readouterr().out == output


def test_no_example_is_left_out():
    assert len(EXAMPLES) == PAGE.count("```python")
