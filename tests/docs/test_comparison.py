"""The comparison with other libraries cites existing tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text()


def test_every_cited_test_exists():
    cited = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(cited) == PAGE.count("`tests/")
    for path, name in cited:
        functions = [node.name for node in ast.parse((ROOT / path).read_text()).body if hasattr(node, "name")]
        assert name in functions, f"{path}::{name}"
