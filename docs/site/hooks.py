"""What the site has beyond MkDocs: links that leave docs/, pages that stand in the root, the list of results.

Pages are written for GitHub, where a link may lead to any file of the repository. On the site a link to a
program leads to a page that shows it, and the root's own pages have a place among the others.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
OF_THE_ROOT = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
"""Pages of the root, and where they stand on the site; the README's place has a page of its own."""

LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)[^)#\s]+")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(r"\s*\*{0,2}([A-Z][^|#]*?)\.(?=[\s*])")
EVERY_RESULT = "results/*.md"


def on_config(config: MkDocsConfig) -> None:
    """Put the pages of results in the place of ``results/*.md`` in the navigation."""
    config.nav = _with_results(config.nav)


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Add the root's pages, and a page for each file or folder outside of docs/ that a page links to."""
    for name in OF_THE_ROOT.keys() - {"README.md"}:
        files.append(File.generated(config, OF_THE_ROOT[name], content=(ROOT / name).read_text()))
    targets = {
        target for page in files.documentation_pages() for target in _targets(page) if _is_source(target)
    }
    for target in sorted(targets):
        files.append(File.generated(config, _place(target), content=_source_page(target)))


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Turn links as the repository has them into those of the site, and list the results."""
    here = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        place = _place(_in_repository(link[0], here))
        known = files.get_file_from_path(place) is not None
        return posixpath.relpath(place, posixpath.dirname(here)) if known else link[0]

    return LINK.sub(moved, markdown.replace("<!-- results -->", _list_of_results()))


def _with_results(part: Any) -> Any:
    """Return a part of the navigation with the names of all pages of results."""
    if isinstance(part, dict):
        return {title: _with_results(below) for title, below in part.items()}
    if isinstance(part, list):
        return [each for below in part for each in _entries(below)]
    return part


def _entries(part: Any) -> Iterator[Any]:
    if part == EVERY_RESULT:
        yield from (f"results/{path.name}" for path in _results())
    else:
        yield _with_results(part)


def _results() -> list[Path]:
    return sorted(path for path in (ROOT / "docs/results").glob("*.md") if path.name != "index.md")


def _list_of_results() -> str:
    """Return a line for each page of results: its title, and the sentence that it begins with, if it does."""
    lines = []
    for path in _results():
        title, _, rest = path.read_text().removeprefix("# ").partition("\n")
        sentence = SENTENCE.match(rest)
        lines.append(
            f"- [{title}]({path.name})" + (f": {' '.join(sentence[1].split())}." if sentence else "")
        )
    return "\n".join(lines)


def _targets(page: File) -> Iterator[str]:
    """Yield the files that a page links to, as paths in the repository."""
    for link in LINK.findall(CODE.sub("", page.content_string)):
        yield _in_repository(link, page.src_uri)


def _in_repository(link: str, page: str) -> str:
    """Return where in the repository a link of a page of the site leads."""
    folder = "" if page in OF_THE_ROOT.values() and page != "index.md" else "docs"
    return posixpath.normpath(posixpath.join(folder, posixpath.dirname(page), link))


def _is_source(target: str) -> bool:
    return not target.startswith("docs/") and target not in OF_THE_ROOT and (ROOT / target).exists()


def _place(target: str) -> str:
    """Return where on the site a file of the repository is shown."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return OF_THE_ROOT.get(target, f"source/{target}.md")


def _source_page(target: str) -> str:
    """Return a page that shows a file, or tells what is in a folder."""
    head, path = f"---\nsearch: {{exclude: true}}\n---\n\n# {target}\n\n", ROOT / target
    if path.is_dir():
        return head + "".join(f"- `{each.name}`\n" for each in sorted(path.iterdir()) if each.suffix)
    language = {".py": "python", ".toml": "toml"}.get(path.suffix, "text")
    return f"{head}````{language}\n{path.read_text()}````\n"
