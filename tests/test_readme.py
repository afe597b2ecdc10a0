"""The README's example works when pasted, and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_prints_what_the_readme_shows(tmp_path):
    example, output = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.DOTALL).groups()
    assert len(example.splitlines()) <= 15
    result = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout == output


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (Path(__file__).parents[1] / target).exists(), target
