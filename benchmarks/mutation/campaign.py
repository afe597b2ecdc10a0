"""The tests are collected once; then each mutant meets those that run its line, in a process of its own."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from _pytest.runner import runtestprotocol

from benchmarks.mutation.apart import side_by_side
from benchmarks.mutation.live import LiveFunctions
from benchmarks.mutation.mutants import Mutant, compiled

Fate = Literal["killed", "timed out", "survived", "not run", "not possible"]
SECONDS = 60  # of processor time, for one test; those of the default tier take a few at most
WAITING = 300  # seconds on the clock, for a test that waits for what never comes
SICK = 0.1  # share of the tests that may fail without a mutant
NOT_POSSIBLE = "the functions cannot take its code"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        mutant: Which.
        fate: ``"killed"`` if a test failed, ``"timed out"`` if one did not end, ``"survived"`` if all passed,
            ``"not run"`` if no test runs the line, ``"not possible"`` if the functions cannot take its code.
        by: The test that failed.
    """

    mutant: Mutant
    fate: Fate
    by: str = ""


class Campaign:
    """A plugin for pytest: mutants instead of the tests' own loop.

    Args:
        root: The repository.
        mutants: Those to be killed, each with the ids of the tests to try, in order.
        processes: How many mutants at a time.
        say: Is called with a line on what comes next.
        tell: Is called with every outcome as soon as it is known.
    """

    def __init__(
        self,
        root: Path,
        mutants: Sequence[tuple[Mutant, list[str]]],
        processes: int,
        *,
        say: Callable[[str], None],
        tell: Callable[[Outcome], None],
    ) -> None:
        self._root = root
        self._mutants = mutants
        self._processes = processes
        self._say = say
        self._tell = tell

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the campaign."""
        items = {item.nodeid: item for item in session.items}
        functions = LiveFunctions(self._root)
        gc.collect()
        gc.freeze()  # what the collector does not touch is not copied for each process
        self._say("the tests without a mutant")
        healthy = self._healthy(items)
        self._say("the mutants")
        for mutant, failed in side_by_side(self._works(items, healthy, functions), self._processes):
            self._tell(_outcome(mutant, failed))
        return True

    def _healthy(self, items: dict[str, pytest.Item]) -> set[str]:
        wanted = {test for _, tests in self._mutants for test in tests}
        chosen = [item for name, item in items.items() if name in wanted]
        slices = ((i, partial(_failing, chosen[i :: self._processes])) for i in range(self._processes))
        sick = [failed for _, failed in side_by_side(slices, self._processes)]
        if None in sick:
            raise RuntimeError(
                f"a test took more than {SECONDS} s without a mutant; see pytest --durations=5"
            )
        failed = {name for names in sick for name in names or ()}
        if len(failed) > SICK * len(chosen):
            raise RuntimeError(
                f"{len(failed)} of {len(chosen)} tests fail without a mutant, such as {min(failed)}"
            )
        self._say(f"{len(chosen)} tests, {len(failed)} of them left out since they fail without a mutant")
        return {item.nodeid for item in chosen} - failed

    def _works(
        self, items: dict[str, pytest.Item], healthy: set[str], functions: LiveFunctions
    ) -> Iterator[tuple[Mutant, Callable[[], list[str]]]]:
        for mutant, tests in self._mutants:
            chosen = [items[test] for test in tests if test in healthy]
            if not chosen:
                self._tell(Outcome(mutant, "not run"))
                continue
            yield mutant, partial(_meet, self._root, mutant, functions, chosen)


def _outcome(mutant: Mutant, failed: list[str] | None) -> Outcome:
    if failed is None:
        return Outcome(mutant, "timed out")
    if not failed:
        return Outcome(mutant, "survived")
    return (
        Outcome(mutant, "not possible") if failed == [NOT_POSSIBLE] else Outcome(mutant, "killed", failed[0])
    )


def _meet(root: Path, mutant: Mutant, functions: LiveFunctions, items: list[pytest.Item]) -> list[str]:
    try:
        functions.become(compiled(root, mutant))
    except ValueError:
        return [NOT_POSSIBLE]
    return _failing(items, enough=1)


def _failing(items: list[pytest.Item], enough: int | None = None) -> list[str]:
    failed: list[str] = []
    for item, following in zip(items, [*items[1:], None], strict=False):
        _limit(SECONDS, WAITING)
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            failed.append(item.nodeid)
        _limit(0, 0)
        if len(failed) == enough:
            break
    return failed


def _limit(working: int, waiting: int) -> None:
    """Let a signal end this process after so many seconds of processor time, or on the clock; 0 for never."""
    signal.setitimer(signal.ITIMER_PROF, working)
    signal.alarm(waiting)
