"""Which tests run a line, as `make coverage` wrote it down."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from coverage import CoverageData

from benchmarks.mutation.mutants import Mutant


class Covering:
    """Which tests run which lines.

    Args:
        root: The repository.
        data: What `make coverage` wrote: lines, with the tests that ran them.
    """

    def __init__(self, root: Path, data: Path) -> None:
        self._root = root
        measured = CoverageData(str(data))
        measured.read()
        self._lines: dict[str, dict[int, list[str]]] = {}
        self._reach: Counter[str] = Counter()
        for path in measured.measured_files():
            self._lines[path] = measured.contexts_by_lineno(path)
            for contexts in self._lines[path].values():
                self._reach.update({_test_of(context) for context in contexts})

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that run a mutant's statement; those that run little else come first."""
        lines = self._lines.get(str(self._root / mutant.path), {})
        first, last = mutant.lines
        found = {_test_of(context) for line in range(first, last + 1) for context in lines.get(line, ())}
        return sorted(found - {""}, key=lambda test: (self._reach[test], test))


def _test_of(context: str) -> str:
    return context.rpartition("|")[0]
