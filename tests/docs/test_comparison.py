"""The comparison with other libraries cites an existing test for every claim about this buffer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text()
CITED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
NO_CLAIM = ("no", "not yet")


def tables_with_tests():
    """Yield this buffer's cells by row label, and the tests cited by label, for each table."""
    for section in PAGE.split("\n## ")[1:]:
        rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("|")]
        cells = {label.strip(): cell.strip() for label, cell in rows[2:]}
        if cells:
            items = re.findall(r"^- ([^:`]+):((?:.|\n  )+)", section, re.MULTILINE)
            yield cells, {label: re.findall(r"`tests/[^`]+::test_\w+`", tests) for label, tests in items}


def test_every_cited_test_exists():
    assert len(CITED) == PAGE.count("`tests/")
    for path, name in CITED:
        functions = [node.name for node in ast.parse((ROOT / path).read_text()).body if hasattr(node, "name")]
        assert name in functions, f"{path}::{name}"


def test_every_claim_about_this_buffer_cites_a_test():
    sections = list(tables_with_tests())
    assert len(sections) == 4
    for cells, tests in sections:
        claimed = {label for label, cell in cells.items() if not cell.startswith(NO_CLAIM)}
        assert tests.keys() == claimed
        assert all(tests.values())


def test_claims_about_other_libraries_cite_tests():
    for library in ("sb3", "cpprb", "tianshou", "torchrl"):
        cited = {name for path, name in CITED if path == f"tests/peers/test_{library}.py"}
        assert cited
