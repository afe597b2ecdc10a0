"""Convert docstrings to pages: `Example:` sections are code, public names in backticks are links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

PAGES = Path(__file__).parents[1] / "reference"
FULL_NAMES = {
    path.rpartition(".")[2]: path
    for page in PAGES.glob("*.md")
    for path in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
}
"""Full names of the entries of the reference, by their last component."""

NAME = re.compile(r"(?<![`\[])`(\w+)`(?![`\]])")


class Docstrings(griffe.Extension):
    """Extension that prepares docstrings for the site."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of an object that was loaded."""
        if obj.docstring is not None:
            text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = NAME.sub(lambda match: _link(match[1], obj.name), text)


def _link(name: str, current: str) -> str:
    return f"[`{name}`][{FULL_NAMES[name]}]" if name in FULL_NAMES and name != current else f"`{name}`"
