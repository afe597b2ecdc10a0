"""check_replay: run scenarios with a replay buffer, apply the rules, return a report."""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import numpy as np

from her_wrappers.conformance.adapter import OFFERS, ReplayAdapter, require_adapter
from her_wrappers.conformance.driver import BufferDriver, ScenarioError
from her_wrappers.conformance.env import ConformanceEnv
from her_wrappers.conformance.rows import kind_of_end
from her_wrappers.conformance.rules import REPLAY_RULES
from her_wrappers.conformance.scenarios import EQUAL_EPISODES, SCENARIOS, Result
from her_wrappers.rules import Report, Violation, unmet_needs
from her_wrappers.support.arguments import require_count

OPTIONS = {
    "changing": "goals that change",
    "bonus": "rewards with a bonus",
    "costs": "rewards with costs",
}
"""Options of `ConformanceEnv`, each with the name of the scenario that tests only this option. In scenarios
after these, an option is used if its own scenario has no fault."""


def check_replay(
    adapter: type[ReplayAdapter],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    seed: int = 0,
    max_seconds: float = 60.0,
) -> Report:
    """Check a HER replay buffer.

    Each scenario adds episodes to new buffers and samples batches. Each goal contains the number of its
    episode and the number of its step, so each sampled row (one transition of a batch) can be compared with
    the transition that was added.
    Statistical tests report only deviations of more than six standard deviations. The findings depend only on
    ``seed`` if the buffer takes all random numbers from generators that it seeds with its argument ``seed``,
    and if no scenario exceeds its time limit.

    Args:
        adapter: A subclass of `ReplayAdapter`.
        select: Rule codes or prefixes of codes to report, such as ``"HB1"``; empty for all.
        ignore: Rule codes or prefixes of codes that are not reported.
        seed: Seed of buffers and episodes.
        max_seconds: Time limit of a scenario in seconds. HB004 reports a scenario that exceeds the limit, and
            no further scenario is run.

    Returns:
        The report, which counts the episodes of all scenarios; call ``report.raise_if_errors()`` in a test.

    Raises:
        TypeError: ``adapter`` is not a subclass of `ReplayAdapter`, or its ``name`` is not a str, or its
            ``offers`` are not a set.
        ValueError: The adapter offers an unknown feature or no strategy, or has an unknown ``termination`` or
            ``evicts``; a rule code is unknown; or ``seed`` is not an integer >= 0.
    """
    rules = REPLAY_RULES.select(select, ignore)
    results = ScenarioResults(require_adapter(adapter), require_count("seed", seed, at_least=0), max_seconds)
    # In this suite, inconclusive_without lists the scenarios of a rule.
    results.run({name for rule in rules for name in rule.inconclusive_without})
    findings = REPLAY_RULES.judge(results, rules)
    episodes = [episode for env in results.envs for episode in env.episodes]
    gaps = unmet_needs(results, rules)
    return Report(
        target=adapter.name,
        seed=results.seed,
        steps=sum(map(len, episodes)),
        episodes=len(episodes),
        successes=sum(kind_of_end(episode).startswith("success") for episode in episodes),
        findings=tuple(findings),
        not_exercised=tuple(gap for gap in gaps if gap.reason not in OFFERS.values()),
        not_offered=tuple(gap for gap in gaps if gap.reason in OFFERS.values()),
    )


class ScenarioResults:
    """Results of scenarios with one adapter; each scenario may take ``max_seconds``."""

    def __init__(self, adapter: type[ReplayAdapter], seed: int, max_seconds: float) -> None:
        self.adapter, self.seed, self.max_seconds = adapter, seed, max_seconds
        self.results: dict[str, Result] = {}  # of scenarios that ran without an error, by name
        # By (aspect, name of the scenario), without those of earlier scenarios. For an error, the aspect is
        # "stored" or the code of the rule that reports the error.
        self.faults: defaultdict[tuple[str, str], list[Violation]] = defaultdict(list)
        self.envs: list[ConformanceEnv] = []
        self._reasons: dict[str, str] = {}  # why a scenario has no result, by name
        self._known: set[Any] = set()  # faults and errors that were reported

    def missing(self, need: str) -> str:
        """Return why the feature or scenario ``need`` is not available; an empty text if it is available."""
        if need in OFFERS:
            return "" if need in self.adapter.offers else OFFERS[need]
        return self._reasons.get(need, "")

    def run(self, names: set[str]) -> None:
        """Run the scenarios ``names``, the first one and those of `OPTIONS`, as far as they are offered."""
        names, stop = {EQUAL_EPISODES, *OPTIONS.values(), *names}, ""
        for name, scenario in SCENARIOS.items():
            if name in names and scenario.offers <= self.adapter.offers:
                if stop:
                    self._reasons[name] = stop
                else:
                    stop = self._run(name)

    def _run(self, name: str) -> str:
        """Run a scenario and compare its rows; return why no further scenario can run, or an empty text."""
        drivers: list[BufferDriver] = []
        works = {key: name in self.results and self.results[name].is_clean for key, name in OPTIONS.items()}
        # If goals change, a recomputed reward of an original row differs from the recorded one.
        works["changing"] &= works["bonus"]
        # With termination="success", a reward other than 0 and -1 would have no meaning.
        bonus = -0.25 * (works["bonus"] and self.adapter.termination != "success")

        def make(**arguments: Any) -> BufferDriver:
            given = {"env": works | {"bonus": bonus}, **arguments}
            drivers.append(BufferDriver(self.adapter, seed=self.seed, **given))
            return drivers[-1]

        try:
            result = call_within(self.max_seconds, lambda: SCENARIOS[name].run(make))
        except ScenarioError as error:
            if str(error) not in self._known:
                is_of_rows = error.code == "HB001" and name != EQUAL_EPISODES and SCENARIOS[name].number < 80
                fault = Violation(str(error), subject=f"scenario {name!r}")
                self.faults["stored" if is_of_rows else error.code, name].append(fault)
                self._known.add(str(error))
            is_last = name == EQUAL_EPISODES or error.code == "HB004"
            end = ", so no further scenario was run" if is_last else ""
            self._reasons[name] = f"the scenario {name!r} failed{end}"
            return self._reasons[name] if is_last else ""
        finally:
            self.envs += {id(driver.env): driver.env for driver in drivers}.values()
        self.results[name] = result
        result.drivers = drivers
        for rows in result.rows:
            for aspect, fault in rows.faults(self._known):
                self.faults[aspect, name].append(fault)
                result.is_clean = False
        is_wrong = name == EQUAL_EPISODES and result.rows[0].has_wrong("transition")
        return f"the rows of the scenario {name!r} are wrong, so no other was run" if is_wrong else ""


def call_within(seconds: float, function: Callable[[], Result]) -> Result:
    """Return the result of a function, called in a thread without warnings; raise HB004 after ``seconds``."""
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
            raise ScenarioError("HB004", f"the scenario did not end within {seconds:g} seconds")
    try:
        result: Result = future.result()
    except ScenarioError:
        raise
    except (Exception, SystemExit) as error:
        message = f"the adapter raised {type(error).__name__}: {' '.join(str(error).split())}"
        raise ScenarioError("HB001", message[:300]) from error
    return result


def parametrize_with_rules(adapter: type[ReplayAdapter], *, seed: int = 0) -> Any:
    """Return a pytest decorator that makes one test case per rule.

    The decorated function gets the argument ``finding``: the text of the rule's finding, or None if there is
    no finding of severity error or warning. Rules that need a feature that the adapter does not offer are
    skipped. A scenario that raises an error is a finding of one rule only, such as HB001.

    Args:
        adapter: A subclass of `ReplayAdapter`.
        seed: Seed of the check.

    Example:
        >>> from her_wrappers.conformance.adapters.ours import Ours
        >>> @parametrize_with_rules(Ours)  # doctest: +SKIP
        ... def test_my_buffer(finding):
        ...     assert finding is None
    """
    import pytest  # noqa: PLC0415 - only tests need it

    report = check_replay(adapter, seed=seed)
    skipped = {code for gap in report.not_offered for code in gap.codes}
    worst_last = reversed(report.of_severity("error", "warning"))
    texts = {finding.code: str(finding) for finding in worst_last}
    cases = []
    for code, rule in REPLAY_RULES.items():
        marks = [pytest.mark.skip(reason="not offered")] if code in skipped else []
        cases.append(pytest.param(texts.get(code), id=f"{code}-{rule.name}", marks=marks))
    return pytest.mark.parametrize("finding", cases)
