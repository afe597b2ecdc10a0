"""How docstrings become pages: `Example:` is code, and a public name in backticks is a link."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

PAGES = Path(__file__).parents[1] / "reference"
PLACES = {
    path.rpartition(".")[2]: path
    for page in PAGES.glob("*.md")
    for path in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
}
"""Full names of what the reference shows, by their last part."""

NAME = re.compile(r"(?<![`\[])`(\w+)`(?![`\]])")


class Docstrings(griffe.Extension):
    """Prepares docstrings for the site."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of whatever was just read."""
        if obj.docstring is not None:
            text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = NAME.sub(lambda match: _linked(match[1], obj.name), text)


def _linked(name: str, here: str) -> str:
    return f"[`{name}`][{PLACES[name]}]" if name in PLACES and name != here else f"`{name}`"
