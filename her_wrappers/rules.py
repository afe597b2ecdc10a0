"""Rules, findings and reports: the engine of `check_goal_env`, `check_replay` and `diagnose`."""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # all severities, in the order of a report


class EvidenceLike(Protocol):
    """The recorded facts that the rules of a suite judge."""

    def missing(self, need: str) -> str:
        """Return why ``need``, a precondition of a rule, is not met, or an empty text if it is met."""
        ...


@dataclass(frozen=True)
class Violation:
    """One violation of a rule."""

    message: str  # the violation in one sentence, without a period, with the values that were found
    place: str = ""  # place of the violation, such as ``"episode 0, step 3"``; may be empty
    subject: str = ""  # the element concerned, such as a key; each subject becomes a separate finding
    severity: Severity | None = None  # severity of this violation, or None for the severity of the rule
    repair: str | None = None  # repair wrapper for this violation, or None for that of the rule


Check: TypeAlias = Callable[[Any], Iterator[Violation]]
"""Function of the evidence that yields the violations of a rule."""


@dataclass(frozen=True)
class Rule:
    """A requirement, and the function that finds its violations."""

    code: str  # such as ``"GE101"``; the first digit is the family
    name: str  # name of the rule in words, such as ``"reward-mismatch"``
    severity: Severity  # error: training data would be wrong, or the run would crash; warning: in some uses
    meaning: str  # the fault in one sentence
    fix: str  # the fix in one line, without a period
    check: Check  # function that yields the violations
    wrong: str = ""  # example of code that violates the rule; may be empty
    right: str = ""  # the example with the fault corrected; empty without ``wrong``
    source: str = ""  # source of the requirement, such as a paper or an issue; may be empty
    threshold: str = ""  # the threshold of the rule and its reason; empty for rules without a threshold
    needs: tuple[str, ...] = ()  # needs that the evidence must meet for the rule to be applied
    # needs that the rule does not require, but without which the absence of findings is inconclusive
    inconclusive_without: tuple[str, ...] = ()
    repair: str = ""  # class of `her_wrappers.repairs` that corrects the fault, or an empty text
    passive: bool = False  # whether `GoalEnvChecker` applies the rule to an environment in use
    is_last: bool = False  # whether the rule is applied after all others, since they may add to the evidence


@dataclass(frozen=True)
class Finding:
    """All violations of one rule for one subject.

    Attributes:
        code: Code of the rule, such as ``"GE101"``.
        name: Name of the rule, such as ``"reward-mismatch"``.
        severity: ``"error"``, ``"warning"`` or ``"info"``.
        subject: The element concerned, such as a key of the observation; may be empty.
        place: Place of the violation in ``message``, such as ``"episode 0, step 3"``; may be empty.
        message: The most severe violation, in one sentence without a period. If several violations are
            equally severe, the first one.
        fix: How to correct the fault, without a period.
        repair: Class of `her_wrappers.repairs` that corrects the fault, or an empty text.
        caused_by: The wrapper that causes the finding, such as ``"TransformReward (layer 2 from the
            outside)"``; empty if no wrapper causes the finding or the cause is unknown.
        count: Number of violations.
    """

    code: str
    name: str
    severity: Severity
    subject: str
    place: str
    message: str
    fix: str
    repair: str
    caused_by: str
    count: int

    @property
    def where(self) -> str:
        """Subject, place and number of violations; empty for one violation without subject and place."""
        times = f"({self.count} times)" if self.count > 1 else ""
        return " ".join(filter(None, [", ".join(filter(None, [self.subject, self.place])), times]))

    @property
    def description(self) -> str:
        """One line with subject, place, message and the wrapper that causes the finding, without the fix."""
        where = f"{self.where}: " if self.where else ""
        cause = f"; caused by {self.caused_by}" if self.caused_by else ""
        return f"{where}{self.message}{cause}."

    def __str__(self) -> str:
        """Return the finding in one line."""
        return f"{self.code} {self.name}: {self.description} Fix: {self.fix}."


@dataclass(frozen=True)
class NotExercised:
    """A situation that did not occur, or a feature that a replay buffer lacks, and the rules that need it.

    Attributes:
        reason: The situation or feature, such as ``"no episode ended in 30 steps"``.
        codes: Codes of the rules whose absence from the findings is therefore inconclusive; empty if
            ``reason`` concerns the whole report, such as an early end of the run.
    """

    reason: str
    codes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the reason and the codes of the rules that were not exercised, in one line."""
        return f"{self.reason} (inconclusive: {', '.join(self.codes)})" if self.codes else self.reason


class ReportError(ValueError):
    """A report has errors or, with ``strict``, warnings; the message is the text of the report."""


@dataclass(frozen=True)
class Report:
    """The result of `check_goal_env`, `check_replay` or `diagnose`.

    Attributes:
        target: Name of the environment, replay buffer, run or file that was judged.
        seed: Seed of the environment or of the buffer; None if the suite used recorded data.
        steps: Number of steps that were judged.
        episodes: Number of episodes that were judged.
        successes: Number of judged steps that reached their goal; None if this is unknown.
        findings: Findings, errors first.
        not_exercised: Situations that did not occur, with the rules that need them.
        not_offered: Features that the replay buffer does not offer, with the rules that need them; always
            empty for `check_goal_env` and `diagnose`.
        outcome: Success rate of a run in words; always empty for `check_goal_env` and `check_replay`.
    """

    target: str
    seed: int | None
    steps: int
    episodes: int
    successes: int | None
    findings: tuple[Finding, ...]
    not_exercised: tuple[NotExercised, ...] = ()
    not_offered: tuple[NotExercised, ...] = ()
    outcome: str = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    @property
    def codes(self) -> list[str]:
        """Codes of the findings, sorted and without repetition."""
        return sorted({finding.code for finding in self.findings})

    def of_severity(self, *severities: Severity) -> list[Finding]:
        """Return the findings of the given severities, such as ``"error"``."""
        return [finding for finding in self.findings if finding.severity in severities]

    def raise_if_errors(self, *, strict: bool = False) -> None:
        """Raise ReportError if the report has findings of severity error.

        Args:
            strict: Whether findings of severity warning raise the error too.

        Raises:
            ReportError: The report has an error or, with ``strict``, a warning.
        """
        if self.of_severity("error", *(("warning",) if strict else ())):
            raise ReportError(self.text())

    def summary(self) -> str:
        """Return the numbers of findings, steps, episodes and successful steps in one line."""
        counts = [(len(self.of_severity(severity)), severity) for severity in SEVERITIES[:2]]
        found = ", ".join(f"{count} {severity}{'s' * (count != 1)}" for count, severity in counts)
        seed = "" if self.seed is None else f" (seed {self.seed})"
        successes = "an unknown number of" if self.successes is None else self.successes
        return (
            f"{self.target}: {found} in {self.steps} steps of {self.episodes} episodes "
            f"with {successes} successful step{'s' * (self.successes != 1)}{seed}"
            + (f"; {self.outcome}" if self.outcome else "")
        )

    def text(self) -> str:
        """Return the report as text: a summary, a paragraph for each finding, and the rules not judged."""
        lines = [self.summary()]
        for finding in self.findings:
            lines += [f"{finding.severity} {finding.code} {finding.name}: {finding.description}"]
            repair = f"; or wrap the environment in her_wrappers.repairs.{finding.repair}"
            lines += [f"    fix: {finding.fix}{repair if finding.repair else ''}"]
        lines += [f"not exercised: {gap}" for gap in self.not_exercised]
        lines += [f"not offered: {gap.reason} ({', '.join(gap.codes)})" for gap in self.not_offered]
        return "\n".join(lines)

    __str__ = text

    def json(self) -> str:
        """Return the report as JSON, an object with the attributes of this class."""
        return json.dumps(asdict(self), indent=2)

    def github(self, location: tuple[str, int] | None = None) -> str:
        """Return one GitHub workflow command per finding, which GitHub shows as an annotation.

        Args:
            location: File (relative to the repository) and line to annotate, or None for no location.
        """

        # Workflow commands escape text as in
        # https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
        def data(text: str) -> str:
            return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

        def attribute(text: str) -> str:
            return data(text).replace(":", "%3A").replace(",", "%2C")

        place = "" if location is None else f"file={attribute(location[0])},line={location[1]},"
        return "\n".join(
            f"::{'notice' if finding.severity == 'info' else finding.severity} {place}"
            f"title={attribute(f'{finding.code} {finding.name}')}::"
            + data(f"{self.target}: {finding.description} Fix: {finding.fix}")
            for finding in self.findings
        )


class RuleSet(Mapping[str, Rule]):
    """The rules of a suite, by code.

    Reports sort the findings of a severity by the first digit of their codes, in the order ``families``. A
    finding hides the findings of all later groups of its chain: with the chain ``("GE4", "GE501 GE502")``,
    one of GE401 hides those of GE501 and GE502. Findings that are hidden themselves hide others, too.
    """

    def __init__(self, families: str = "0123456789", chains: Sequence[Sequence[str]] = ()) -> None:
        self._rules: dict[str, Rule] = {}
        self._families = families
        self._chains = [[tuple(family.split()) for family in chain] for chain in chains]
        self._hidden: dict[str, set[str]] = {}  # results of `_hidden_by`

    def __getitem__(self, code: str) -> Rule:
        return self._rules[code]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._rules))

    def __len__(self) -> int:
        return len(self._rules)

    def rule(
        self,
        code: str,
        name: str = "",
        severity: Severity = "error",
        *,
        meaning: str = "",
        fix: str,
        wrong: str = "",
        right: str = "",
        **options: Any,
    ) -> Callable[[Check], Check]:
        """Return a decorator; ``name`` and ``meaning`` default to the function's name and docstring."""

        def add(check: Check) -> Check:
            self._hidden.clear()
            doc = check.__doc__ or f"{check.__name__.replace('_', ' ')}."  # `python -OO` removes docstrings
            text = meaning or " ".join(doc.split())
            texts = name or check.__name__.replace("_", "-"), severity, text
            example = wrong.strip("\n"), right.strip("\n")
            self._rules[code] = Rule(code, *texts, fix, check, *example, **options)
            return check

        return add

    def select(self, select: Iterable[str] = (), ignore: Iterable[str] = ()) -> list[Rule]:
        """Return the rules whose codes begin with a prefix in ``select``, but not with one in ``ignore``.

        Args:
            select: Codes or prefixes of codes, or a single one as a string; empty for all rules.
            ignore: Codes or prefixes of codes, or a single one as a string.

        Raises:
            ValueError: A prefix in ``select`` or ``ignore`` matches no rule code.
        """
        chosen, ignored = ((each,) if isinstance(each, str) else tuple(each) for each in (select, ignore))
        for prefix in chosen + ignored:
            if not any(code.startswith(prefix) for code in self):
                raise ValueError(unknown_code(prefix, self))
        return [
            rule
            for code, rule in self.items()
            if (not chosen or code.startswith(chosen)) and not (ignored and code.startswith(ignored))
        ]

    def judge(self, evidence: EvidenceLike, rules: Iterable[Rule]) -> list[Finding]:
        """Return the findings of ``rules``, errors first, except those that a finding of any rule hides."""
        selected = {rule.code: rule for rule in rules}
        findings = apply_rules(selected.values(), evidence)
        codes = {finding.code for finding in findings}
        causes = [
            rule for code, rule in self.items() if code not in selected and codes & self._hidden_by(code)
        ]
        findings = self.without_hidden([*findings, *apply_rules(causes, evidence)])
        return self.in_order(finding for finding in findings if finding.code in selected)

    def without_hidden(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings that no other one hides; a warning that hides an error becomes an error."""
        hidden_by = {each.code: self._hidden_by(each.code) for each in findings}
        hidden = set[str]().union(*hidden_by.values())
        kept = []
        for finding in findings:
            if finding.code not in hidden:
                severities = [each.severity for each in findings if each.code in hidden_by[finding.code]]
                worst = min([finding.severity, *severities], key=SEVERITIES.index)
                kept.append(replace(finding, severity=worst))
        return kept

    def _hidden_by(self, code: str) -> set[str]:
        """Return the codes of the rules whose findings a finding of the rule ``code`` hides."""
        if code not in self._hidden:
            found = set[str]()
            for chain in self._chains:
                places = (i for i, family in enumerate(chain) if code.startswith(family))
                later = tuple(itertools.chain.from_iterable(chain[next(places, len(chain)) + 1 :]))
                found.update(each for each in self if each.startswith(later))
            self._hidden[code] = found.union(*map(self._hidden_by, found))
        return self._hidden[code]

    def in_order(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return findings sorted by severity, errors first, then by family, code and subject."""
        return sorted(
            findings,
            key=lambda each: (
                SEVERITIES.index(each.severity),
                self._families.index(each.code[2]),
                each.code,
                each.subject,
            ),
        )


def apply_rules(rules: Iterable[Rule], evidence: EvidenceLike) -> list[Finding]:
    """Return the findings of rules whose ``needs`` are met, one for each rule and subject of violations."""
    findings = []
    for rule in sorted(rules, key=lambda rule: rule.is_last):
        if any(map(evidence.missing, rule.needs)):
            continue
        groups: dict[str, list[Violation]] = {}
        for violation in rule.check(evidence):
            groups.setdefault(violation.subject, []).append(violation)
        for subject, group in groups.items():
            first = min(group, key=lambda each: SEVERITIES.index(each.severity or rule.severity))
            repair = rule.repair if first.repair is None else first.repair
            texts = subject, first.place, first.message, rule.fix, repair
            severity = first.severity or rule.severity
            findings.append(Finding(rule.code, rule.name, severity, *texts, caused_by="", count=len(group)))
    return findings


def unmet_needs(evidence: EvidenceLike, rules: Iterable[Rule]) -> list[NotExercised]:
    """Return each unmet need with the codes of its rules; of each rule, only the first unmet need counts."""
    gaps: dict[str, list[str]] = {}
    for rule in rules:
        needs = (*rule.needs, *rule.inconclusive_without)
        reason = next(filter(None, map(evidence.missing, needs)), "")
        if reason:
            gaps.setdefault(reason, []).append(rule.code)
    return [NotExercised(reason, tuple(codes)) for reason, codes in gaps.items()]


def unknown_code(code: str, codes: Iterable[str]) -> str:
    """Return the error message for an unknown rule code; it suggests the most similar ones of ``codes``."""
    near = difflib.get_close_matches(code, codes, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`her rules` lists all codes"
    return f"unknown rule code {code!r}; {hint}"
