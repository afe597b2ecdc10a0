"""ScenarioResults: the evidence of the rules on replay buffers."""

from __future__ import annotations

import ctypes
import threading
import warnings
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.conformance.adapter import OFFERS
from her_wrappers.conformance.env import ConformanceEnv
from her_wrappers.conformance.rows import ASPECTS, BufferDriver, DecodedRows, ScenarioError, first_strategy
from her_wrappers.conformance.scenarios import (
    ENDS_OF_EPISODES,
    EQUAL_EPISODES,
    LONG_EPISODES,
    SCENARIOS,
    USED,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from her_wrappers.conformance.adapter import ReplayAdapter

OPTIONS = {
    "changing": "goals that change",
    "bonus": "rewards with a bonus",
    "costs": "rewards with costs",
}
"""Options of `ConformanceEnv`, and the simple scenarios of each."""

SITUATIONS = ("different lengths", "full buffer", "overwritten without sampling", "saved and loaded")
"""Scenarios whose situations a used buffer combines."""

SLICE = 0.1
"""Seconds that a time limit is counted in."""


class StoppedError(BaseException):
    """A scenario exceeds its time limit; unlike a TimeoutError, an adapter does not raise it."""


class ScenarioResults:
    """The results of scenarios for one adapter, each within a time limit of ``max_seconds``.

    Attributes:
        failures: Failures by the name of the scenario.
        envs: Environments of all scenarios, with the episodes that were added.
    """

    def __init__(self, adapter: type[ReplayAdapter], seed: int, max_seconds: float) -> None:
        self.adapter, self.seed, self.max_seconds = adapter, seed, max_seconds
        self.failures: dict[str, ScenarioError] = {}
        self.envs: list[ConformanceEnv] = []
        self._results: dict[str, Any] = {}

    def of(self, name: str) -> Any:
        """Return the result of a scenario, which is run once; None if it failed or cannot run.

        A scenario cannot run if the adapter does not offer its features, if an earlier scenario exceeded its
        time limit, or if the first scenario failed.
        """
        if name not in self._results and SCENARIOS[name].offers <= self.adapter.offers:
            if name == f"strategy {first_strategy(self.adapter)}":  # of which the first scenario has rows
                equal = self.of(EQUAL_EPISODES)
                self._results[name] = None if equal is None else equal.rows
            elif EQUAL_EPISODES not in self.failures and not (
                self._timed_out
                or (name.endswith(USED) and self._is_wrong_in(*SITUATIONS))
                or (name.endswith(LONG_EPISODES) and self._is_wrong_in("different lengths"))
            ):
                self._results[name] = self._run(name)
        return self._results.get(name)

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

    def rows(self) -> Iterator[tuple[str, DecodedRows]]:
        """Yield the names and the rows of the scenarios, except those with priorities."""
        for name in SCENARIOS:
            rows = getattr(result := self.of(name), "rows", result)
            if isinstance(rows, DecodedRows) and name != "full buffer":  # which changes between batches
                yield name, rows

    def _is_wrong_in(self, *situations: str) -> bool:
        """Whether rows are wrong in one situation alone, so that its variants would show nothing new."""
        rows = {name: getattr(result := self.of(name), "rows", result) for name in situations}
        return any(name in self.failures or (each and each.faults) for name, each in rows.items())

    @cached_property
    def _options(self) -> dict[str, Any]:
        """Options of the environments of other scenarios, each only if its simple scenario has no fault."""
        rows = {option: self.of(name) for option, name in OPTIONS.items()}
        works = {option: bool(each) and not each.faults for option, each in rows.items()}
        # With termination="success", a reward other than 0 and -1 would have no meaning.
        bonus = -0.25 * (works["bonus"] and self.adapter.termination != "success")
        return works | {"bonus": bonus}

    @property
    def _timed_out(self) -> str:
        """Name of the scenario that exceeded its time limit, or an empty text."""
        return next((name for name, failure in self.failures.items() if failure.code == "HB004"), "")

    @cached_property
    def _known_faults(self) -> set[str]:
        """Aspects of rows that are wrong in the two simplest scenarios; others do not judge them again."""
        first = self.of(EQUAL_EPISODES)
        if first is None:
            return set(ASPECTS)
        ends = self.of(ENDS_OF_EPISODES)
        return {
            *first.rows.faults,
            *({"termination", "truncation", "discount"} & ends.faults.keys() if ends else ()),
        }

    def _run(self, name: str) -> Any:
        is_simple = name in {EQUAL_EPISODES, ENDS_OF_EPISODES, *OPTIONS.values()}
        env_options = {} if is_simple else self._options

        def make(**options: Any) -> BufferDriver:
            options.setdefault("env", ConformanceEnv(**env_options))
            driver = BufferDriver(self.adapter, seed=self.seed, **options)
            if name not in {EQUAL_EPISODES, ENDS_OF_EPISODES}:
                driver.known_faults = lambda: self._known_faults
            if driver.env not in self.envs:
                self.envs.append(driver.env)
            return driver

        try:
            return call_within(self.max_seconds, lambda: SCENARIOS[name].run(make))
        except StoppedError:
            message = f"the scenario did not end within {self.max_seconds:g} seconds"
            self.failures[name] = ScenarioError("HB004", message)
        except ScenarioError as error:
            self.failures[name] = error
        except (Exception, SystemExit) as error:  # anything that a user's adapter raises
            message = f"the adapter raised {type(error).__name__}: {' '.join(str(error).split())}"
            self.failures[name] = ScenarioError("HB001", message[:300])
        return None


def call_within(seconds: float, function: Callable[[], Any]) -> Any:
    """Return the result of a function that is called in a new thread, without warnings.

    Raises:
        StoppedError: The function did not return in time, and was interrupted if it is in a Python loop. Time
            in which the whole process was stopped does not count.
    """
    future: Future[Any] = Future()

    def call() -> None:
        try:
            with np.errstate(all="ignore"):
                future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

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
    return future.result()
