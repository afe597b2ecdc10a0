"""Damaged copies of a file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def damaged(content: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield ``count`` variants of a file's content, each damaged by the next of KINDS at random places."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        yield KINDS[number % len(KINDS)](content, rng)


def _flip_bits(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.integers(1, 9)):
        changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _flip_bits_at_the_end(content: bytes, rng: np.random.Generator) -> bytes:
    at = max(0, len(content) - 1000)
    return content[:at] + _flip_bits(content[at:], rng)


def _truncate(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content))]


def _behead(content: bytes, rng: np.random.Generator) -> bytes:
    return content[rng.integers(1, len(content)) :]


def _cut_out(content: bytes, rng: np.random.Generator) -> bytes:
    begin, end = sorted(rng.integers(len(content), size=2))
    return content[:begin] + content[end + 1 :]


def _insert(content: bytes, rng: np.random.Generator) -> bytes:
    at = rng.integers(len(content) + 1)
    return content[:at] + rng.bytes(int(rng.integers(1, 200))) + content[at:]


def _overwrite(content: bytes, rng: np.random.Generator) -> bytes:
    at, size = rng.integers(len(content)), int(rng.integers(1, 200))
    return (content[:at] + rng.bytes(size) + content[at + size :])[: len(content)]


def _zeros(content: bytes, rng: np.random.Generator) -> bytes:
    begin, end = sorted(rng.integers(len(content), size=2))
    return content[:begin] + bytes(end - begin) + content[end:]


def _swap(content: bytes, rng: np.random.Generator) -> bytes:
    first, second, third = sorted(rng.integers(len(content), size=3))
    return content[:first] + content[second:third] + content[first:second] + content[third:]


def _noise(content: bytes, rng: np.random.Generator) -> bytes:
    return rng.bytes(int(rng.integers(2 * len(content))))


KINDS = (
    _flip_bits,
    _flip_bits_at_the_end,
    _truncate,
    _behead,
    _cut_out,
    _insert,
    _overwrite,
    _zeros,
    _swap,
    _noise,
)
