"""The rules by their codes. A rule is one function in one of the files of `her_wrappers.checker.rules`.

To add one, write a generator of `Violation` under the `rule` decorator, and a broken specimen of an
environment for the tests.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from her_wrappers.checker.evidence import Evidence

Severity: TypeAlias = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Violation:
    """One place where a rule is broken.

    Attributes:
        got: The value found.
        expected: The value that the rule expects.
        place: Episode and step, such as ``"episode 0, step 3"``; empty if the rule is broken everywhere.
        subject: The part concerned, such as a key; each subject becomes a finding of its own.
        hint: A likely cause.
        severity: Severity, if it differs from that of the rule.
        adapter: Adapter, if it differs from that of the rule.
    """

    got: str
    expected: str
    place: str = ""
    subject: str = ""
    hint: str = ""
    severity: Severity | None = None
    adapter: str | None = None


Check: TypeAlias = "Callable[[Evidence], Iterator[Violation]]"


@dataclass(frozen=True)
class Rule:
    """A requirement on goal environments, and the function that finds its violations.

    Attributes:
        code: ``GE`` and three digits; the first digit is the family.
        name: The code in words.
        severity: ``"error"``: training data would be wrong or crash; ``"warning"``: wrong under some use;
            ``"info"``: a note.
        meaning: The fault in one sentence.
        fix: The remedy in one line.
        wrong: A short program that breaks the rule.
        right: The same, repaired.
        needs: Names from `evidence.NEEDS` without which the rule is not applied.
        inconclusive_without: Names from `evidence.NEEDS` without which the absence of findings proves
            nothing.
        implies: Codes of rules whose findings follow from a finding of this rule, and are not reported with
            it.
        adapter: The class of `her_wrappers.adapters` that fixes the fault, or an empty text.
        passive: Whether `GoalEnvChecker` applies the rule to the steps of an environment in use.
        check: The function that yields the violations.
    """

    code: str
    name: str
    severity: Severity
    meaning: str
    fix: str
    wrong: str
    right: str
    needs: tuple[str, ...]
    inconclusive_without: tuple[str, ...]
    implies: tuple[str, ...]
    adapter: str
    passive: bool
    check: Check


RULES: dict[str, Rule] = {}
"""All rules, by code."""


def rule(
    code: str,
    name: str,
    severity: Severity,
    *,
    meaning: str,
    fix: str,
    wrong: str,
    right: str,
    needs: tuple[str, ...] = (),
    inconclusive_without: tuple[str, ...] = (),
    implies: tuple[str, ...] = (),
    adapter: str = "",
    passive: bool = False,
) -> Callable[[Check], Check]:
    """Register the decorated function as a rule; the arguments are those of `Rule`."""

    def register(check: Check) -> Check:
        RULES[code] = Rule(
            code, name, severity, meaning, fix, wrong.strip("\n"), right.strip("\n"),
            needs, inconclusive_without, implies, adapter, passive, check,
        )  # fmt: skip
        return check

    return register


def selected(select: Iterable[str], ignore: Iterable[str]) -> list[Rule]:
    """Return the rules whose codes begin with one of ``select`` (all if empty) and none of ``ignore``.

    Raises:
        ValueError: A prefix fits no rule.
    """
    chosen, ignored = _prefixes(select), _prefixes(ignore)
    for prefix in chosen + ignored:
        if not any(code.startswith(prefix) for code in RULES):
            raise ValueError(unknown_code(prefix))
    return [
        rule
        for code, rule in sorted(RULES.items())
        if (not chosen or code.startswith(chosen)) and not (ignored and code.startswith(ignored))
    ]


def _prefixes(codes: Iterable[str]) -> tuple[str, ...]:
    return (codes,) if isinstance(codes, str) else tuple(codes)


def unknown_code(code: Any) -> str:
    """Return the error message for an unknown rule code."""
    near = difflib.get_close_matches(str(code), RULES, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`her rules` lists them"
    return f"unknown rule code {code!r}; {hint}"
