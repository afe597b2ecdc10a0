"""The comparison with other libraries cites existing tests."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text()


def test_every_cited_test_exists():
    cited = re.findall(r"`((?:tests|benchmarks/peers)/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(cited) == PAGE.count("`tests/") + PAGE.count("`benchmarks/peers/")
    for path, name in cited:
        functions = [node.name for node in ast.parse((ROOT / path).read_text()).body if hasattr(node, "name")]
        assert name in functions, f"{path}::{name}"
