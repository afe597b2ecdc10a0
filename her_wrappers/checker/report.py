"""Report: the findings of a check, and the rules that the run did not exercise."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from her_wrappers.checker.registry import Severity

GITHUB_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


class GoalEnvError(ValueError):
    """The check of an environment has errors; the message is the report."""


@dataclass(frozen=True)
class Finding:
    """The violations of one rule for one subject: the first of the most severe violations, and their number.

    Attributes:
        code: Code of the rule, such as ``"GE101"``.
        name: Name of the rule, such as ``"reward-mismatch"``.
        severity: ``"error"``, ``"warning"`` or ``"info"``.
        subject: The element concerned, such as a key of the observation; may be empty.
        place: Episode and step of the violation; empty if the violation has no place.
        expected: The value that the rule expects.
        got: The value found.
        hint: Likely cause; may be empty.
        fix: How to correct the environment.
        adapter: Class of `her_wrappers.repairs` that fixes the fault, or an empty text.
        wrapper: Wrapper that causes the finding, such as ``"TransformReward (layer 2 from the outside)"``;
            empty if no wrapper causes the finding or the cause is unknown.
        count: Number of violations.
    """

    code: str
    name: str
    severity: Severity
    subject: str
    place: str
    expected: str
    got: str
    hint: str
    fix: str
    adapter: str
    wrapper: str
    count: int

    def __str__(self) -> str:
        """Return the finding in one line."""
        return " ".join(filter(None, [f"{self.code} {self.name}:", self.message(), f"Fix: {self.fix}."]))

    def message(self) -> str:
        """Return place, expected value, found value and likely cause, without code and fix."""
        where = ", ".join(filter(None, [self.subject, self.place]))
        often = f" ({self.count} times)" if self.count > 1 else ""
        text = f"{where}{often}: " if where else ""
        text += f"expected {self.expected}, got {self.got}"
        text += f"; {self.hint}" if self.hint else ""
        return text + (f"; caused by {self.wrapper}." if self.wrapper else ".")


@dataclass(frozen=True)
class NotExercised:
    """A situation that did not occur in the run, and the rules that need it.

    Attributes:
        reason: The situation, such as ``"no episode ended in 30 steps"``.
        codes: Codes of the rules whose absence from the findings is inconclusive; empty for the reason of an
            early stop.
    """

    reason: str
    codes: tuple[str, ...]

    def __str__(self) -> str:
        """Return reason and codes in one line."""
        return f"{self.reason} (inconclusive: {', '.join(self.codes)})" if self.codes else self.reason


@dataclass(frozen=True)
class Report:
    """The result of a check.

    Attributes:
        environment: Id of the environment, or the name of its class.
        seed: Seed of the check; None for the report of `GoalEnvChecker`.
        steps: Number of steps.
        episodes: Number of episodes that began.
        successes: Number of steps that reached their goal; of the checked steps for `GoalEnvChecker`.
        findings: Findings, errors first.
        not_exercised: Situations that did not occur, with the rules that need them.
    """

    environment: str
    seed: int | None
    steps: int
    episodes: int
    successes: int
    findings: tuple[Finding, ...]
    not_exercised: tuple[NotExercised, ...]

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
        """Raise GoalEnvError if the report has findings of severity error.

        Args:
            strict: Whether findings of severity warning raise the error too.

        Raises:
            GoalEnvError: The report has an error or, with ``strict``, a warning.
        """
        if self.of_severity("error") or (strict and self.of_severity("warning")):
            raise GoalEnvError(self.text())

    def summary(self) -> str:
        """Return the numbers of findings, steps, episodes and successful steps in one line."""
        counts = [(len(self.of_severity(severity)), severity) for severity in ("error", "warning")]
        found = ", ".join(f"{count} {severity}{'s' * (count != 1)}" for count, severity in counts)
        seed = "" if self.seed is None else f" (seed {self.seed})"
        return (
            f"{self.environment}: {found} in {self.steps} steps of {self.episodes} episodes "
            f"with {self.successes} successful step{'s' * (self.successes != 1)}{seed}"
        )

    def text(self) -> str:
        """Return the report as text: summary, one block per finding, and situations that did not occur."""
        lines = [self.summary()]
        for finding in self.findings:
            lines += [f"{finding.severity} {finding.code} {finding.name}: {finding.message()}"]
            lines += [f"    fix: {finding.fix}" + _adapter_hint(finding.adapter)]
        lines += [f"not exercised: {gap}" for gap in self.not_exercised]
        return "\n".join(lines)

    __str__ = text

    def json(self) -> str:
        """Return the report as JSON, an object with the attributes of this class."""
        return json.dumps(asdict(self), indent=2)

    def github(self, location: tuple[str, int] | None = None) -> str:
        """Return one GitHub workflow command per finding, which GitHub shows as an annotation.

        Args:
            location: File, relative to the repository, and line that GitHub annotates.
        """
        place = "" if location is None else f"file={_property(location[0])},line={location[1]},"
        return "\n".join(
            f"::{GITHUB_LEVELS[finding.severity]} {place}"
            f"title={_property(f'{finding.code} {finding.name}')}::"
            + _data(f"{self.environment}: {finding.message()} Fix: {finding.fix}")
            for finding in self.findings
        )


def _adapter_hint(adapter: str) -> str:
    return f"; or wrap the environment in her_wrappers.repairs.{adapter}" if adapter else ""


# Workflow commands escape text as in
# https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
