"""Processes that are killed at random moments, to see what they leave on disk."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]


def kills(code: str, times: int, *, within: float = 0.2, seed: int = 0) -> Iterator[None]:
    """Run a program so many times; kill it, and let the caller look at what it left.

    Args:
        code: Python that works for ever, and prints a line once it has begun.
        times: How often.
        within: The kill comes at a random moment up to so many seconds after that line.
        seed: Of the moments.

    Yields:
        After each kill; the process is gone.
    """
    rng = np.random.default_rng(seed)
    for _ in range(times):
        with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), "the program must print a line when it has begun"
            time.sleep(rng.uniform(0, within))
            assert process.poll() is None, "the program must work until it is killed"
            process.kill()
        yield
