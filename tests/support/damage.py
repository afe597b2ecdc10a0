"""Damaged copies of a file, and what reading them may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from her_wrappers import CorruptFileError


def damaged(content: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield ``count`` variants of a file's content, each damaged in the next of ten ways at random places."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        noise = rng.bytes(int(rng.integers(1, 200)))
        a, b, c = sorted(map(int, rng.integers(len(content), size=3)))
        yield (
            _flip_bits(content, rng),
            content[:-1000] + _flip_bits(content[-1000:], rng),
            content[:a],
            content[a + 1 :],
            content[:a] + content[b + 1 :],
            content[:a] + noise + content[a:],
            (content[:a] + noise + content[a + len(noise) :])[: len(content)],
            content[:a] + bytes(b - a) + content[b:],
            content[:a] + content[b:c] + content[a:b] + content[c:],  # swapped parts
            rng.bytes(int(rng.integers(2 * len(content)))),
        )[number % 10]


def _flip_bits(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.integers(1, 9)):
        changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def assert_exact_or_corrupt(path: Path, read: Callable[[], object], count: int, seed: int = 0) -> None:
    """Assert that `read`, which compares the content with the original, succeeds or raises CorruptFileError.

    It is called for ``count`` damaged variants of the file, most of which must give the error.
    """
    content, errors = path.read_bytes(), []
    for variant in damaged(content, count, seed):
        path.write_bytes(variant)
        try:
            read()
        except CorruptFileError as error:
            errors.append(str(error))
    path.write_bytes(content)
    assert count / 2 < len(errors)
    assert all(path.name in error and len(error) < 500 for error in errors)
