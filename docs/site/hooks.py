"""MkDocs hooks for links to files outside of docs/, pages in the root, and the navigation of results.

Pages are written for GitHub, where a link may lead to any file of the repository. On the site, a link to a
program leads to a generated page that shows the program, and the pages of the root are included.
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
ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
"""Pages in the root of the repository, and their paths on the site; docs/index.md replaces the README."""

LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)[^)#\s]+")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
ALL_RESULTS = "results/*.md"


def on_config(config: MkDocsConfig) -> None:
    """Replace ``results/*.md`` in the navigation by the pages of results, a section for each topic."""
    config.nav = _with_results(config.nav)


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Add the pages of the root, and a page for each file or folder outside of docs/ that a page links to."""
    for name in ROOT_PAGES.keys() - {"README.md"}:
        files.append(File.generated(config, ROOT_PAGES[name], content=(ROOT / name).read_text()))
    targets = {
        target for page in files.documentation_pages() for target in _targets(page) if _is_source(target)
    }
    for target in sorted(targets):
        files.append(File.generated(config, _site_path(target), content=_source_page(target)))


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Convert links between files of the repository to links of the site."""
    here = page.file.src_uri
    if here.startswith(("reference/", "results/")):
        page.meta["search"] = {"boost": 0.2}  # a how-to page answers the questions of most readers

    def convert(link: re.Match[str]) -> str:
        target = _site_path(_in_repository(link[0], here))
        known = files.get_file_from_path(target) is not None
        return posixpath.relpath(target, posixpath.dirname(here)) if known else link[0]

    return LINK.sub(convert, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Keep words with hyphens in inline code on one line, such as ``--n-sampled-goal``."""

    def keep(code: re.Match[str]) -> str:
        return re.sub(r"[^\s<>]*-[^\s<>]*", lambda word: f'<span class="word">{word[0]}</span>', code[0])

    return re.sub(r"(?<=<code>)[^<]{1,200}(?=</code>)", keep, html)


def _with_results(entry: Any) -> Any:
    """Return the navigation, or an entry of it, with the pages of results by the topics of their list."""
    if isinstance(entry, dict):
        return {title: _with_results(child) for title, child in entry.items()}
    if isinstance(entry, list):
        return [each for child in entry for each in _entries(child)]
    return entry


def _entries(entry: Any) -> Iterator[Any]:
    if entry != ALL_RESULTS:
        yield _with_results(entry)
        return
    for section in (ROOT / "docs/results/index.md").read_text().split("\n## ")[1:]:
        topic, _, pages = section.partition("\n")
        yield {topic: [f"results/{name}" for name in re.findall(r"\((\w+\.md)\)", pages)]}


def _targets(page: File) -> Iterator[str]:
    """Yield the targets of the links of a page, as paths in the repository."""
    for link in LINK.findall(CODE.sub("", page.content_string)):
        yield _in_repository(link, page.src_uri)


def _in_repository(link: str, page: str) -> str:
    """Return the path in the repository to which a link of a page leads."""
    folder = "" if page in ROOT_PAGES.values() and page != "index.md" else "docs"
    return posixpath.normpath(posixpath.join(folder, posixpath.dirname(page), link))


def _is_source(target: str) -> bool:
    return not target.startswith("docs/") and target not in ROOT_PAGES and (ROOT / target).exists()


def _site_path(target: str) -> str:
    """Return the path of a file of the repository on the site."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return ROOT_PAGES.get(target, f"source/{target}.md")


def _source_page(target: str) -> str:
    """Return a page that shows a file, or lists the files in a folder."""
    head, path = f"---\nsearch: {{exclude: true}}\n---\n\n# {target}\n\n", ROOT / target
    if path.is_dir():
        return head + "".join(f"- `{each.name}`\n" for each in sorted(path.iterdir()) if each.suffix)
    language = {".py": "python", ".toml": "toml"}.get(path.suffix, "text")
    return f"{head}````{language}\n{path.read_text()}````\n"
