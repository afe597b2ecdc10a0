"""ScenarioResults: the evidence of the rules on replay buffers."""

from __future__ import annotations

import ctypes
import threading
import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.conformance.adapter import OFFERS
from her_wrappers.conformance.rows import ASPECTS, BatchError, DecodedRows
from her_wrappers.conformance.scenarios import (
    ENDS_OF_EPISODES,
    EQUAL_EPISODES,
    SCENARIOS,
    BufferDriver,
    first_strategy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from her_wrappers.conformance.adapter import ReplayAdapter
    from her_wrappers.conformance.env import ConformanceEnv

SLICE = 0.1
"""Seconds that a time limit is counted in."""


class StoppedError(BaseException):
    """A scenario exceeds its time limit; unlike a TimeoutError, an adapter does not raise it."""


class Failure(NamedTuple):
    """Reason why a scenario has no result.

    Attributes:
        code: HB001 (exception), HB002 or HB003 (wrong batch), HB004 (time limit) or HB005 (wrong rows).
        message: The reason in one sentence.
    """

    code: str
    message: str


class ScenarioResults:
    """The results of scenarios for one adapter.

    Args:
        adapter: The adapter class.
        seed: Seed of buffers and episodes.
        max_seconds: Time limit of a scenario in seconds.

    Attributes:
        failures: Failures by the name of the scenario.
        envs: Environments of all scenarios, with the episodes that were added.
    """

    def __init__(self, adapter: type[ReplayAdapter], seed: int, max_seconds: float) -> None:
        self.adapter, self.seed, self.max_seconds = adapter, seed, max_seconds
        self.failures: dict[str, Failure] = {}
        self.envs: list[ConformanceEnv] = []
        self._results: dict[str, Any] = {}

    def of(self, name: str) -> Any:
        """Return the result of a scenario, which is run once; None if it failed or cannot run.

        A scenario cannot run if the adapter does not offer its features, if an earlier scenario exceeded its
        time limit, if the first scenario failed, or if it repeats the first scenario.
        """
        if name not in self._results:
            offered = SCENARIOS[name].offers <= self.adapter.offers
            stopped = EQUAL_EPISODES in self.failures or self._timed_out
            is_first_strategy = name == f"strategy {first_strategy(self.adapter)}"
            if offered and not stopped and not is_first_strategy:
                self._results[name] = self._run(name)
        return self._results.get(name)

    def rows_by_strategy(self, *strategies: str) -> dict[str, DecodedRows]:
        """Return the rows of each offered strategy whose scenario did not fail."""
        rows = {name: self.of(f"strategy {name}") for name in strategies}
        first = first_strategy(self.adapter)  # the first scenario uses it, so it has no scenario of its own
        if first in rows and self.of(EQUAL_EPISODES) is not None:
            rows[first] = self.of(EQUAL_EPISODES).rows
        return {name: found for name, found in rows.items() if found is not None}

    def missing(self, need: str) -> str:
        """Return why a feature is not offered or why a scenario has no result; an empty text if neither."""
        if need in OFFERS:
            return "" if need in self.adapter.offers else OFFERS[need]
        if EQUAL_EPISODES in self.failures:
            return f"the scenario {EQUAL_EPISODES!r} failed, so no other scenario was run"
        if need in self.failures:
            return f"the scenario {need!r} failed"
        if self._timed_out and need not in self._results and SCENARIOS[need].offers <= self.adapter.offers:
            return f"the scenario {self._timed_out!r} did not end, so no further scenario was run"
        return ""

    @property
    def _timed_out(self) -> str:
        """Name of the scenario that exceeded its time limit, or an empty text."""
        return next((name for name, failure in self.failures.items() if failure.code == "HB004"), "")

    @cached_property
    def _known_faults(self) -> set[str]:
        """Aspects of rows that are wrong in the simplest scenarios, which other scenarios do not judge again.

        These are the wrong aspects of the first scenario, or all if it failed, and terminations if they are
        wrong in the scenario of ends of episodes.
        """
        first = self.of(EQUAL_EPISODES)
        if first is None:
            return set(ASPECTS)
        aspects = {name for name, wrong in first.rows.wrong_by_aspect.items() if wrong.any()}
        ends = self.of(ENDS_OF_EPISODES)
        if ends is not None and ends.wrong_by_aspect["termination"].any():
            aspects.add("termination")
        return aspects

    def _run(self, name: str) -> Any:
        is_simple = name in {EQUAL_EPISODES, ENDS_OF_EPISODES}

        def known_faults() -> set[str]:
            return set() if is_simple else self._known_faults

        def make(**options: Any) -> BufferDriver:
            driver = BufferDriver(self.adapter, known_faults=known_faults, **{"seed": self.seed} | options)
            if driver.env not in self.envs:
                self.envs.append(driver.env)
            return driver

        try:
            return call_within(self.max_seconds, lambda: SCENARIOS[name].run(make))
        except StoppedError:
            failure = Failure("HB004", f"the scenario did not end within {self.max_seconds:g} seconds")
        except BatchError as error:
            failure = Failure(error.code, str(error))
        except (Exception, SystemExit) as error:  # anything that a user's adapter raises
            message = " ".join(str(error).split())
            failure = Failure("HB001", f"the adapter raised {type(error).__name__}: {message}"[:300])
        self.failures[name] = failure
        return None


def call_within(seconds: float, function: Callable[[], Any]) -> Any:
    """Call a function in a new thread, without warnings, and return its result.

    Args:
        seconds: Time limit in seconds. Time in which the whole process was stopped does not count.
        function: Function without arguments.

    Raises:
        BaseException: Any exception that the function raises.
        StoppedError: The function did not return in time; a Python loop in the thread is interrupted.
    """
    outcome: dict[str, Any] = {}

    def call() -> None:
        try:
            with np.errstate(all="ignore"):
                outcome["result"] = function()
        except StoppedError:
            pass
        except BaseException as error:
            outcome["error"] = error

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        waited = 0.0
        while thread.is_alive() and waited < seconds:
            thread.join(SLICE)
            waited += SLICE  # a clock would also count the minutes of a suspended computer
        if thread.is_alive():
            stop = ctypes.pythonapi.PyThreadState_SetAsyncExc
            stop(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(StoppedError))
            thread.join(1)
            raise StoppedError
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]
