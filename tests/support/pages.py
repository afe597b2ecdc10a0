"""What the tests of the pages share: where pages are, and the code and the output that they show."""

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
"""Code of ours, the file that it is to be saved as, and what it prints, if the page shows that."""


def name_of(page: Path) -> str:
    """The page's path, for the names of tests."""
    return str(page.relative_to(ROOT))


def names_after(text: str) -> dict:
    """What a text's code defines, run from top to bottom in the present folder; what it prints is its own."""
    names: dict = {}
    exec("\n".join(match["code"] for match in EXAMPLE.finditer(text)), names)
    return names


def run_page(page: Path, names: dict, capsys) -> None:
    """Run a page's code from top to bottom in the present folder; it prints what the page shows."""
    for example in EXAMPLE.finditer(page.read_text()):
        if example["file"]:
            Path(example["file"]).write_text(example["code"])
            importlib.invalidate_caches()  # else it may not be seen at once
            continue
        exec(compile(example["code"], name_of(page), "exec"), names)
        printed = capsys.readouterr().out
        if example["output"] is not None:
            assert printed == example["output"], name_of(page)
