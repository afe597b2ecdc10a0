"""Helpers for tests of pages: paths of the pages, and their code blocks with the output shown."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("*.md"))]

EXAMPLE = re.compile(
    r"```python(?: title=\"(?P<file>[\w.]+)\")?\n(?P<code>.*?)```(?:\n+```text\n(?P<output>.*?)```)?",
    re.DOTALL,
)
"""A block of Python code, its file name if it has a title, and its output if the page shows it."""


def name_of(page: Path) -> str:
    """Return the path of a page, for the names of tests."""
    return str(page.relative_to(ROOT))


def names_after(text: str) -> dict:
    """Run the code of a text from top to bottom in the current folder; return the names that it defines."""
    names: dict = {}
    exec("\n".join(match["code"] for match in EXAMPLE.finditer(text)), names)
    return names


def run_page(page: Path, names: dict, capsys, changes: dict[str, str] | None = None) -> None:
    """Run the code of a page from top to bottom in the current folder and compare its output.

    ``changes`` replaces parts of the page, for example by a shorter run.
    """
    text = page.read_text()
    for old, new in (changes or {}).items():
        text = text.replace(old, new)
    for example in EXAMPLE.finditer(text):
        if example["file"]:
            Path(example["file"]).write_text(example["code"])
            importlib.invalidate_caches()  # otherwise the new file may not be found
            continue
        exec(compile(example["code"], name_of(page), "exec"), names)
        printed = capsys.readouterr().out
        if example["output"] is not None:
            assert printed == example["output"], name_of(page)
