"""Run a benchmark as a user does, with ``--quick``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_quick(name: str, page: Path, *arguments: str) -> str:
    """Run a benchmark that writes ``page``; return its output."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--out", str(page), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
