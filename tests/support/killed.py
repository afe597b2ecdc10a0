"""Processes that are killed at random moments, to test the files that they leave on disk."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]


def kills(code: str, times: int, *, within: float = 0.2, seed: int = 0) -> Iterator[None]:
    """Run a program several times; kill it ``within`` seconds after it prints a line, and yield."""
    rng = np.random.default_rng(seed)
    for _ in range(times):
        with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), "the program must print a line when it has begun"
            time.sleep(rng.uniform(0, within))
            assert process.poll() is None, "the program must work until it is killed"
            process.kill()
        yield
