"""check_replay: run scenarios with a replay buffer, apply the rules, return a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from her_wrappers.arguments import require_count
from her_wrappers.checker.judge import errors_first, findings_of, without_implied
from her_wrappers.checker.registry import Rule, selected
from her_wrappers.checker.report import NotExercised, Report
from her_wrappers.conformance import rules as _register_rules  # noqa: F401 - importing it registers the rules
from her_wrappers.conformance.adapter import OFFERS, STRATEGIES, ReplayAdapter, Terminations
from her_wrappers.conformance.registry import REPLAY_RULES, REPORTS_FAILURES
from her_wrappers.conformance.results import FIRST, ScenarioResults

if TYPE_CHECKING:
    from her_wrappers.checker.report import Finding

MAX_SECONDS = 60.0
TERMINATIONS = (*get_args(Terminations), None)


class ReplayError(ValueError):
    """The report of a replay buffer has errors or, with ``strict``, warnings; the message is the report."""


@dataclass(frozen=True, repr=False)
class ReplayReport(Report):
    """The result of `check_replay`.

    Attributes:
        environment: Name of the buffer.
        seed: Seed of the check.
        steps: Number of rows in the batches of 128 rows that the first scenario samples; 0 if it failed.
        episodes: Number of episodes added in the first scenario; 0 if it failed.
        successes: Number of relabeled rows among ``steps`` that reach their goal.
        findings: Findings, errors first.
        not_exercised: Scenarios that failed, each with the rules that report its exceptions. If the first
            scenario failed, the only entry has all selected rules except HB001 to HB004.
        not_offered: Features that the adapter does not offer, with the rules that need them.
    """

    not_offered: tuple[NotExercised, ...] = ()

    def raise_if_errors(self, *, strict: bool = False) -> None:
        """Raise ReplayError if the report has findings of severity error.

        Args:
            strict: Whether findings of severity warning raise the error too.

        Raises:
            ReplayError: The report has an error or, with ``strict``, a warning.
        """
        if self.of_severity("error") or (strict and self.of_severity("warning")):
            raise ReplayError(self.text())

    def summary(self) -> str:
        """Return the name of the buffer, the numbers of errors and warnings, and the seed in one line."""
        counts = [(len(self.of_severity(severity)), severity) for severity in ("error", "warning")]
        found = ", ".join(f"{count} {severity}{'s' * (count != 1)}" for count, severity in counts)
        return f"{self.environment}: {found} (seed {self.seed})"

    def text(self) -> str:
        """Return the report as text with one block per finding."""
        lines = [f"not offered: {gap.reason} ({', '.join(gap.codes)})" for gap in self.not_offered]
        return "\n".join([super().text(), *lines])

    __str__ = text


def check_replay(
    adapter: type[ReplayAdapter],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    seed: int = 0,
    max_seconds: float = MAX_SECONDS,
) -> ReplayReport:
    """Check a HER replay buffer.

    Each scenario adds episodes to new buffers and samples batches. The goals contain the numbers of episode
    and step, so each sampled row is compared with the transition that was added. Statistical tests allow six
    standard deviations. The findings depend only on ``seed`` if the buffer takes all random numbers from
    generators that it seeds with its argument ``seed``, and if no scenario exceeds its time limit.

    Args:
        adapter: A subclass of `ReplayAdapter`.
        select: Codes or beginnings of codes to report, such as ``"HB1"``; all by default.
        ignore: Codes or beginnings of codes not to report.
        seed: Seed of buffers and episodes.
        max_seconds: Time limit of a scenario in seconds. HB004 reports a scenario that exceeds the limit, and
            no further scenario is run.

    Returns:
        The report; call ``report.raise_if_errors()`` in a test.

    Raises:
        TypeError: ``adapter`` is not a subclass of `ReplayAdapter` with all abstract methods, its ``name`` is
            not a str, or its ``offers`` is not a set.
        ValueError: The adapter offers no strategy or an unknown feature, or has an unknown ``termination``; a
            rule code is unknown; or ``seed`` is not an integer >= 0.
    """
    rules = selected(select, ignore, REPLAY_RULES)
    seed = require_count("seed", seed, at_least=0)
    results = ScenarioResults(require_adapter(adapter), seed, max_seconds)
    findings = _judge(results, rules)
    first = results.of(FIRST)
    return ReplayReport(
        adapter.name,
        seed,
        len(first.rows) if first else 0,
        len(first.rows.env.episodes) if first else 0,
        int((first.rows.relabeled & first.rows.is_reached).sum()) if first else 0,
        tuple(findings),
        tuple(_not_exercised(results, rules)),
        tuple(_not_offered(adapter, rules)),
    )


def require_adapter(adapter: Any) -> type[ReplayAdapter]:
    """Validate an adapter class, and return it.

    Args:
        adapter: A subclass of `ReplayAdapter`; other objects raise an error.

    Raises:
        TypeError: ``adapter`` is not a subclass of `ReplayAdapter`, abstract methods are missing, ``name`` is
            not a str, or ``offers`` is not a set.
        ValueError: The class offers no strategy, or an unknown feature, or has an unknown termination.
    """
    if not (isinstance(adapter, type) and issubclass(adapter, ReplayAdapter)):
        raise TypeError(f"adapter: expected a subclass of ReplayAdapter, got {adapter!r}; pass the class")
    missing = sorted(getattr(adapter, "__abstractmethods__", ()))
    if missing:
        raise TypeError(
            f"{adapter.__name__}: expected all abstract methods of ReplayAdapter; define {', '.join(missing)}"
        )
    name = getattr(adapter, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"{adapter.__name__}.name: expected a class attribute of type str, got {name!r}")
    _require_offers(f"{adapter.__name__}.offers", getattr(adapter, "offers", None))
    if adapter.termination not in TERMINATIONS:
        raise ValueError(
            f"{adapter.__name__}.termination: expected one of {TERMINATIONS}, got {adapter.termination!r}"
        )
    return adapter


def _require_offers(name: str, offers: Any) -> None:
    """Raise an error unless ``offers`` is a set of keys of `OFFERS` with at least one strategy."""
    if not isinstance(offers, Set):
        raise TypeError(f"{name}: expected a class attribute of type set, got {offers!r}")
    unknown = sorted(map(repr, offers - OFFERS.keys()))
    if unknown:
        raise ValueError(f"{name}: unknown feature {unknown[0]}; valid features are {', '.join(OFFERS)}")
    if not offers & set(STRATEGIES):
        raise ValueError(
            f"{name}: expected at least one strategy of {', '.join(STRATEGIES)}, got {set(offers)}"
        )


def _judge(results: ScenarioResults, rules: Sequence[Rule]) -> list[Finding]:
    """Return the findings of ``rules``; other rules are applied only to remove findings that they imply."""
    codes = {rule.code for rule in rules}
    offered = [rule for rule in REPLAY_RULES.values() if set(rule.needs) <= set(results.adapter.offers)]
    applied = [rule for rule in offered if rule.code in codes or codes.intersection(rule.implies)]
    # HB001 to HB004 are last, since they report failures of the scenarios that the other rules run.
    applied = [rule for rule in applied if rule.code > "HB004"] + [r for r in applied if r.code <= "HB004"]
    found = [finding for rule in applied for finding in findings_of(rule, results)]
    return errors_first(each for each in _without_implied(found, results) if each.code in codes)


def _without_implied(findings: Sequence[Finding], results: ScenarioResults) -> list[Finding]:
    """Return findings that no other implies; only findings of exceptions imply findings of exceptions."""
    raised = {REPORTS_FAILURES.get(name) for name, each in results.failures.items() if each.code == "HB001"}
    kept = without_implied(findings, REPLAY_RULES)
    of_exceptions = without_implied([each for each in findings if each.code in raised], REPLAY_RULES)
    return kept + [each for each in of_exceptions if each not in kept]


def _not_exercised(results: ScenarioResults, rules: Sequence[Rule]) -> list[NotExercised]:
    """Return failed scenarios with the rules that report their exceptions; all rules if the first failed."""
    if results.failures and results.of(FIRST) is None:
        codes = tuple(rule.code for rule in rules if rule.code > "HB004")
        return [NotExercised(f"the scenario {FIRST!r} failed, so no other scenario was run", codes)]
    reported = {code: name for name, code in REPORTS_FAILURES.items()}
    return [
        NotExercised(
            f"the scenario {name!r} failed", tuple(code for code in reported if reported[code] == name)
        )
        for name in results.failures
    ]


def _not_offered(adapter: type[ReplayAdapter], rules: Sequence[Rule]) -> list[NotExercised]:
    gaps: dict[str, list[str]] = {}
    for rule in rules:
        for offer in rule.needs:
            if offer not in adapter.offers:
                gaps.setdefault(OFFERS[offer], []).append(rule.code)
    for strategy, code in (
        ("future", "HB106"),
        ("final", "HB107"),
        ("episode", "HB108"),
        ("random", "HB109"),
    ):
        if strategy not in adapter.offers and any(rule.code == code for rule in rules):
            gaps.setdefault(OFFERS[strategy], []).append(code)
    return [NotExercised(reason, tuple(codes)) for reason, codes in gaps.items()]


def parametrize_with_rules(adapter: type[ReplayAdapter], *, seed: int = 0) -> Any:
    """Return a pytest decorator that makes one test case per rule.

    The decorated function gets the argument ``finding``: the text of a finding of severity error or warning,
    or None. Rules that need a feature that the adapter does not offer are skipped. A rule that needs a failed
    scenario gets None, but the failure is itself a finding of one of the rules.

    Args:
        adapter: A subclass of `ReplayAdapter`.
        seed: Seed of the check.

    Raises:
        TypeError: As in `check_replay`.
        ValueError: As in `check_replay`.

    Example:
        >>> from her_wrappers.conformance.adapters.ours import Ours
        >>> @parametrize_with_rules(Ours)
        ... def test_my_buffer(finding):
        ...     assert finding is None
    """
    import pytest  # noqa: PLC0415 - only tests need it

    report = check_replay(adapter, seed=seed)
    skipped = {code for gap in report.not_offered for code in gap.codes}
    texts = {finding.code: str(finding) for finding in report.findings if finding.severity != "info"}
    return pytest.mark.parametrize(
        "finding",
        [
            pytest.param(
                texts.get(code),
                id=f"{code}-{REPLAY_RULES[code].name}",
                marks=[pytest.mark.skip(reason="not offered")] if code in skipped else [],
            )
            for code in sorted(REPLAY_RULES)
        ],
    )
