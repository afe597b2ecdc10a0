"""ScenarioResults: runs scenarios with a replay buffer, and stores their results for the rules."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections import defaultdict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.conformance.adapter import OFFERS
from her_wrappers.conformance.driver import BufferDriver, ScenarioError
from her_wrappers.conformance.env import ConformanceEnv
from her_wrappers.conformance.scenarios import EQUAL_EPISODES, SCENARIOS, Result
from her_wrappers.rules import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from her_wrappers.conformance.adapter import ReplayAdapter

OPTIONS = {
    "changing": "goals that change",
    "bonus": "rewards with a bonus",
    "costs": "rewards with costs",
}
"""Options of `ConformanceEnv`, each with the name of the scenario that tests only this option."""


class StoppedError(BaseException):
    """A scenario exceeded its time limit. Adapters that catch Exception do not catch this BaseException."""


class ScenarioResults:
    """Results of the scenarios ``names`` with one adapter; each may take ``max_seconds``.

    The first scenario always runs. If its rows mix several steps, or if a scenario exceeds its time limit, no
    further scenario is run.

    Attributes:
        results: The result of each scenario that ran without an error, by name.
        faults: Violations by (aspect, name of the scenario), except those that an earlier scenario has. For
            an error, the aspect is ``"stored"`` or the code of the rule that reports the error.
        envs: Environments of all scenarios, with the episodes that were added.
    """

    def __init__(
        self, adapter: type[ReplayAdapter], seed: int, max_seconds: float, names: Collection[str]
    ) -> None:
        self.adapter, self.seed, self.max_seconds = adapter, seed, max_seconds
        self.results: dict[str, Result] = {}
        self.faults: defaultdict[tuple[str, str], list[Violation]] = defaultdict(list)
        self.envs: list[ConformanceEnv] = []
        self._reasons: dict[str, str] = {}  # why a scenario has no result, by name
        names = {EQUAL_EPISODES, *names}
        if any(not _is_simple(name) for name in names):
            names |= set(OPTIONS.values())
        known: set[Any] = set()  # faults and errors that were reported
        stop = ""
        for name, scenario in SCENARIOS.items():
            if name in names and scenario.offers <= adapter.offers:
                if stop:
                    self._reasons[name] = stop
                else:
                    stop = self._run(name, known)

    def missing(self, need: str) -> str:
        """Return why the feature or scenario ``need`` is not available; an empty text if it is available."""
        if need in OFFERS:
            return "" if need in self.adapter.offers else OFFERS[need]
        return self._reasons.get(need, "")

    def _run(self, name: str, known: set[Any]) -> str:
        """Run a scenario and compare its rows; return why no further scenario can run, or an empty text."""
        drivers: list[BufferDriver] = []
        options = {} if _is_simple(name) else self._options()

        def make(**arguments: Any) -> BufferDriver:
            drivers.append(BufferDriver(self.adapter, seed=self.seed, **{"env": options, **arguments}))
            return drivers[-1]

        try:
            result = call_within(self.max_seconds, lambda: SCENARIOS[name].run(make))
        except StoppedError:
            error = ScenarioError("HB004", f"the scenario did not end within {self.max_seconds:g} seconds")
        except ScenarioError as raised:
            error = raised
        except (Exception, SystemExit) as raised:  # anything that a user's adapter raises
            message = f"the adapter raised {type(raised).__name__}: {' '.join(str(raised).split())}"
            error = ScenarioError("HB001", message[:300])
        else:
            self.results[name] = result
            result.drivers = drivers
            for rows in result.rows:
                for aspect, fault in rows.faults(known):
                    self.faults[aspect, name].append(fault)
                    result.is_clean = False
            is_wrong = name == EQUAL_EPISODES and result.rows[0].has_wrong("transition")
            return f"the rows of the scenario {name!r} are wrong, so no other was run" if is_wrong else ""
        finally:
            self.envs += {id(driver.env): driver.env for driver in drivers}.values()
        if str(error) not in known:
            is_of_rows = error.code == "HB001" and name != EQUAL_EPISODES and SCENARIOS[name].number < 80
            fault = Violation(str(error), subject=f"scenario {name!r}")
            self.faults["stored" if is_of_rows else error.code, name].append(fault)
            known.add(str(error))
        self._reasons[name] = f"the scenario {name!r} failed"
        if name != EQUAL_EPISODES and error.code != "HB004":
            return ""
        self._reasons[name] += ", so no further scenario was run"
        return self._reasons[name]

    def _options(self) -> dict[str, Any]:
        """Return arguments of `ConformanceEnv`; an option is on if the scenario on it has no fault."""
        works = {key: name in self.results and self.results[name].is_clean for key, name in OPTIONS.items()}
        # If goals change, a recomputed reward of an original row differs from the recorded one.
        works["changing"] &= works["bonus"]
        # With termination="success", a reward other than 0 and -1 would have no meaning.
        return works | {"bonus": -0.25 * (works["bonus"] and self.adapter.termination != "success")}


def _is_simple(name: str) -> bool:
    """Return whether a scenario sets the options of `ConformanceEnv` itself, as those up to number 7 do."""
    return SCENARIOS[name].number <= 7


def call_within(seconds: float, function: Callable[[], Result]) -> Result:
    """Return the result of a function, called in a thread without warnings; stop it after ``seconds``."""
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
        thread.join(seconds)
        if thread.is_alive():
            stop = ctypes.pythonapi.PyThreadState_SetAsyncExc  # raises at the next Python instruction
            stop(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(StoppedError))
            thread.join(1)
            raise StoppedError
    result: Result = future.result()
    return result
