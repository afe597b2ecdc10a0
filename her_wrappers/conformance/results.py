"""ScenarioResults: runs each scenario once, when a rule first needs it, and stores its result or failure."""

from __future__ import annotations

import ctypes
import threading
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.conformance.rows import BatchError, DecodedRows
from her_wrappers.conformance.scenarios import SCENARIOS
from her_wrappers.conformance.scenarios.driver import N_SAMPLED_GOAL, AdapterClass, first_strategy

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = "equal episodes"
"""The scenario that must succeed for the others to run."""


class _StoppedError(BaseException):
    """Raised in the thread of a scenario that exceeds its time limit."""


@dataclass(frozen=True)
class ScenarioFailure:
    """Reason why a scenario has no result.

    Attributes:
        code: HB001 (exception), HB002 or HB003 (wrong batch) or HB004 (time limit). The rule with this code
            reports the failure, except exceptions of the scenarios in `REPORTS_FAILURES`.
        expected: The expected behavior.
        got: The behavior found.
    """

    code: str
    expected: str
    got: str


class ScenarioResults:
    """The results of scenarios for one adapter.

    Args:
        adapter: The adapter class.
        seed: Seed of buffers and episodes.
        max_seconds: Time limit of a scenario in seconds.

    Attributes:
        failures: Failures by the name of the scenario.
        share: Expected share of relabeled rows, k / (k + 1), for the default k of the scenarios.
    """

    share = N_SAMPLED_GOAL / (N_SAMPLED_GOAL + 1)

    def __init__(self, adapter: AdapterClass, seed: int, max_seconds: float) -> None:
        self.adapter, self.seed, self.max_seconds = adapter, seed, max_seconds
        self.failures: dict[str, ScenarioFailure] = {}
        self._results: dict[str, Any] = {}
        self._stopped = False

    def of(self, name: str) -> Any:
        """Return the result of the scenario ``name``, or None if the scenario failed or cannot run."""
        if name not in self._results:
            self._results[name] = None
            if self.can_run(name):
                self._results[name] = self._run(name)
        return self._results[name]

    def can_run(self, name: str) -> bool:
        """Return whether ``name`` can run: no scenario exceeded its time limit, and the first succeeded."""
        return not self._stopped and (name == FIRST or self.of(FIRST) is not None)

    def goals(self, *strategies: str) -> dict[str, DecodedRows]:
        """Return sampled rows by strategy, for offered strategies whose scenario did not fail."""
        rows = {}
        for name in strategies:
            if name in self.adapter.offers:
                is_first = name == first_strategy(self.adapter)
                result = self.of(FIRST) if is_first else self.of(f"strategy {name}")
                if result is not None:
                    rows[name] = result.rows if is_first else result
        return rows

    @cached_property
    def broken_aspects(self) -> set[str]:
        """Aspects of rows that are already wrong in the simplest scenarios, so that others do not check them.

        These are the wrong aspects of the first scenario, and terminations if they are wrong in the scenario
        of ends of episodes.
        """
        aspects = {name for name, wrong in self.of(FIRST).rows.wrong_by_aspect.items() if wrong.any()}
        ends = self.of("ends of episodes")
        if ends is not None and ends.wrong_by_aspect["termination"].any():
            aspects.add("termination")
        return aspects

    def _run(self, name: str) -> Any:
        """Run a scenario, and store its failure."""
        try:
            return call_within(self.max_seconds, lambda: SCENARIOS[name](self.adapter, self.seed))
        except TimeoutError:
            self._stopped = True
            failure = ScenarioFailure("HB004", f"an end within {self.max_seconds:g} seconds", "not completed")
        except BatchError as error:
            failure = ScenarioFailure(error.code, error.expected, error.got)
        except (Exception, SystemExit) as error:  # anything that a user's adapter raises
            failure = ScenarioFailure("HB001", "no exception", _one_line(error))
        self.failures[name] = failure
        return None


def call_within(seconds: float, function: Callable[[], Any]) -> Any:
    """Call a function in a new thread, without warnings, and return its result.

    Args:
        seconds: Time limit in seconds.
        function: Function without arguments.

    Raises:
        BaseException: Any exception that the function raises.
        TimeoutError: The function did not return in time; a Python loop in the thread is interrupted.
    """
    outcome: dict[str, Any] = {}

    def call() -> None:
        try:
            outcome["result"] = function()
        except _StoppedError:
            pass
        except BaseException as error:
            outcome["error"] = error

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            stop = ctypes.pythonapi.PyThreadState_SetAsyncExc
            stop(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_StoppedError))
            thread.join(1)
            raise TimeoutError
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def _one_line(error: BaseException) -> str:
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}"[:300]
