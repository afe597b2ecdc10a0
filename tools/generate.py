"""Write the generated parts of README.md and of the pages in docs.

    python -m tools.generate           # or make generate
    python -m tools.generate --check   # changes nothing; exit code 1 if a file is stale

In a page, each generated text stands between `<!-- generated: NAME ARGUMENT -->` and `<!-- end -->`. NAME is
a function of `tools/tables.py`, and the optional ARGUMENT is passed to this function as a string. Within a
paragraph, no line may begin with the comment: GitHub would show this line as HTML.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tools import tables

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"(<!-- generated: (\w+)(?: (\w+))? -->)(.*?)(<!-- end -->)", re.DOTALL)


def generate(text: str) -> str:
    """Return a page with updated generated parts; parts of several lines get empty lines around them."""

    def replace(found: re.Match[str]) -> str:
        begin, name, argument, _, end = found.groups()
        made = getattr(tables, name)(*filter(None, [argument]))
        return f"{begin}\n\n{made}\n\n{end}" if "\n" in made else f"{begin}{made}{end}"

    return MARKED.sub(replace, text)


def main() -> None:
    """Write the pages that changed; with ``--check``, only print their names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only name the files that would change")
    check = parser.parse_args().check
    stale = []
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        text = page.read_text()
        made = generate(text)
        if made != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(made)
    for name in stale:
        print(f"{name} is stale: run make generate" if check else f"wrote {name}")
    sys.exit(check and bool(stale))


if __name__ == "__main__":
    main()
