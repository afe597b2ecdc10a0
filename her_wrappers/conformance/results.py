"""ScenarioResults: runs scenarios with a replay buffer, and stores their results for the rules."""

from __future__ import annotations

import ctypes
import threading
import warnings
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.conformance.adapter import OFFERS
from her_wrappers.conformance.driver import BufferDriver, ScenarioError, first_strategy
from her_wrappers.conformance.env import ConformanceEnv
from her_wrappers.conformance.rows import FIELDS
from her_wrappers.conformance.scenarios import EQUAL_EPISODES, SCENARIOS, Result
from her_wrappers.rules import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from her_wrappers.conformance.adapter import ReplayAdapter

OPTIONS = {
    "changing": "goals that change",
    "bonus": "rewards with a bonus",
    "costs": "rewards with costs",
}
"""Options of `ConformanceEnv`, each with the name of the scenario that tests only this option."""

SLICE = 0.1
"""Seconds between two checks of whether a scenario has exceeded its time limit."""


class StoppedError(BaseException):
    """A scenario exceeded its time limit. Adapters that catch Exception do not catch this BaseException."""


class ScenarioResults:
    """Runs scenarios with one adapter, for at most ``max_seconds`` each, and stores their results.

    Attributes:
        failures: The error of each failed scenario, by the name of the scenario.
        faults: Faults in the rows of each scenario, by aspect and name of the scenario. Faults
            of an earlier scenario are left out.
        envs: Environments of all scenarios, with the episodes that were added.
    """

    def __init__(self, adapter: type[ReplayAdapter], seed: int, max_seconds: float) -> None:
        self.adapter, self.seed, self.max_seconds = adapter, seed, max_seconds
        self.failures: dict[str, ScenarioError] = {}
        self.faults: dict[tuple[str, str], list[Violation]] = {}
        self.envs: list[ConformanceEnv] = []
        self._results: dict[str, Result | None] = {}
        self._known_faults: set[Any] = set()

    def of(self, name: str) -> Result | None:
        """Return the result of a scenario, or None if it failed or cannot run.

        The first call runs the scenario. A scenario cannot run if it needs a feature that the adapter does
        not offer, if an earlier scenario exceeded its time limit, if the first scenario failed or had wrong
        transitions, or if one of the scenarios named in `Scenario.after` failed or had wrong rows.
        """
        if name == f"strategy {first_strategy(self.adapter)}":  # the first scenario uses this strategy
            return None if self._stops else self.of(EQUAL_EPISODES)
        if name not in self._results:
            self._results[name] = result = self._run(name) if self._can_run(name) else None
            for aspect, found in self._judge(result) if result else ():
                message = found.message if "," not in name else f"{found.message} (scenario {name!r})"
                self.faults.setdefault((aspect, name), []).append(replace(found, message=message))
        return self._results[name]

    def _judge(self, result: Result) -> Iterator[tuple[str, Violation]]:
        """Yield (aspect, violation) for each field that is wrong, unless it was wrong in a result before."""
        new: set[Any] = set()
        for rows in result.rows:
            ignore = self._known_faults | new
            for aspect, fields in FIELDS.items():
                for found in rows.differences(aspect, ignore):
                    yield aspect, found
                new |= {
                    (key, kind)
                    for key in fields
                    for kind in (True, False)
                    if rows.wrong[key][rows.relabeled == kind].any()
                }
            is_mixed = rows.has_wrong("transition")  # some steps are unknown
            for key, find in (("extra", rows.extra), ("missing", rows.missing)):
                for found in find() if key not in ignore and not is_mixed else ():
                    yield "stored", found
                    new.add(key)
        self._known_faults |= new

    def missing(self, need: str) -> str:
        """Return why the feature or scenario ``need`` is not available; an empty text if it is available."""
        if need in OFFERS:
            return "" if need in self.adapter.offers else OFFERS[need]
        if EQUAL_EPISODES in self.failures:
            return f"the scenario {EQUAL_EPISODES!r} failed, so no other scenario was run"
        if need in self.failures:
            return f"the scenario {need!r} failed"
        if self._stops and need != EQUAL_EPISODES and self._is_offered(need):
            return f"the rows of the scenario {EQUAL_EPISODES!r} are wrong, so no other scenario was run"
        if self._timed_out and self.of(need) is None and self._is_offered(need):
            return f"the scenario {self._timed_out!r} did not end, so no further scenario was run"
        return ""

    def _is_offered(self, name: str) -> bool:
        return SCENARIOS[name].offers <= self.adapter.offers

    @property
    def _stops(self) -> bool:
        """Whether the first scenario failed or sampled rows that mix several steps."""
        return self.of(EQUAL_EPISODES) is None or ("transition", EQUAL_EPISODES) in self.faults

    def _can_run(self, name: str) -> bool:
        if name == EQUAL_EPISODES:
            return True
        stops = self._stops or self._timed_out
        return self._is_offered(name) and not stops and not any(map(self._fails, SCENARIOS[name].after))

    def _fails(self, name: str) -> bool:
        """Return whether a scenario failed or had rows with new faults."""
        return (self._is_offered(name) and self.of(name) is None) or any(
            name == each for _, each in self.faults
        )

    @cached_property
    def _options(self) -> dict[str, Any]:
        """Arguments of `ConformanceEnv`. An option is on only if the scenario that tests it did not fail."""
        works = {key: self._is_offered(name) and not self._fails(name) for key, name in OPTIONS.items()}
        # If goals change, a recomputed reward of an original row differs from the recorded one.
        works["changing"] &= works["bonus"]
        # With termination="success", a reward other than 0 and -1 would have no meaning.
        return works | {"bonus": -0.25 * (works["bonus"] and self.adapter.termination != "success")}

    @property
    def _timed_out(self) -> str:
        """Name of the scenario that exceeded its time limit, or an empty text."""
        return next((name for name, failure in self.failures.items() if failure.code == "HB004"), "")

    def _run(self, name: str) -> Result | None:
        is_simple = SCENARIOS[name].number <= 2 or name in OPTIONS.values()
        env_options = {} if is_simple else self._options

        def make(**options: Any) -> BufferDriver:
            options.setdefault("env", ConformanceEnv(**env_options))
            driver = BufferDriver(self.adapter, seed=self.seed, **options)
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


def call_within(seconds: float, function: Callable[[], Result]) -> Result:
    """Call a function in a new thread with warnings ignored, and return its result.

    Raises:
        StoppedError: The function did not return within ``seconds``. The function is interrupted too, at its
            next Python instruction. Time in which the whole process is suspended does not count.
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
    result: Result = future.result()
    return result
