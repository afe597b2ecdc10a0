"""The metadata of the package: version, URLs, citation, and a description without relative links."""

import importlib.util
import re
import tomllib
from importlib.metadata import version

import pytest

import her_wrappers
from tests.support.pages import ROOT

pytest.importorskip("hatchling", reason="hatchling is missing: the extra test")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REPOSITORY = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]


@pytest.fixture(scope="module")
def hatch_build():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def metadata(hatch_build):
    fields = {}
    hatch_build.RepositoryUrls(str(ROOT), {"repository": REPOSITORY + "/"}).update(fields)
    return fields


@pytest.mark.parametrize(
    ("text", "absolute"),
    [
        ("[a page](docs/a.md#part)", "[a page](https://x.org/y/blob/main/docs/a.md#part)"),
        ("![a picture](docs/a.png)", "![a picture](https://x.org/y/raw/main/docs/a.png)"),
        ('<img src="docs/a.gif" width="3">', '<img src="https://x.org/y/raw/main/docs/a.gif" width="3">'),
        ('<a href="docs/a.md">', '<a href="https://x.org/y/blob/main/docs/a.md">'),
        ("[a](https://z.org/b) [c](#part)", "[a](https://z.org/b) [c](#part)"),
        ("[a]: docs/a.md", "[a]: https://x.org/y/blob/main/docs/a.md"),
        ("`[a](b)` and [`f`](docs/f.md)", "`[a](b)` and [`f`](https://x.org/y/blob/main/docs/f.md)"),
        ("```\n[a](b)\n```\n[a](b.svg#x)", "```\n[a](b)\n```\n[a](https://x.org/y/raw/main/b.svg#x)"),
    ],
)
def test_links_become_absolute(hatch_build, text, absolute):
    assert hatch_build.with_absolute_links(text, "https://x.org/y") == absolute


def test_the_description_is_the_readme_with_absolute_links(metadata):
    text = metadata["readme"]["text"]
    links = re.findall(r'\]\(([^)\s]+)|(?:src|href)="([^"]+)', text)
    targets = [first or second for first, second in links]
    assert len(targets) > 20
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []


def test_every_absolute_link_into_the_repository_has_its_file(metadata):
    targets = re.findall(
        re.escape(REPOSITORY) + r"/(?:blob|raw)/main/([^)\"#\s]+)", metadata["readme"]["text"]
    )
    targets += [url.partition("/blob/main/")[2] for url in metadata["urls"].values() if "/blob/main/" in url]
    assert [each for each in targets if not (ROOT / each).exists()] == []


def test_all_files_name_the_same_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert her_wrappers.__version__ == version("her-toolkit")
    assert f"\nversion: {her_wrappers.__version__}\n" in citation
