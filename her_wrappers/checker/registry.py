"""The rules by their codes. A rule is one function in one of the files of `her_wrappers.checker.rules`.

To add one, write a generator of `Violation` under the `rule` decorator, and a broken specimen of an
environment for the tests.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

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


Check: TypeAlias = Callable[[Any], Iterator[Violation]]
"""Evidence to violations: `Evidence` of an environment, or `Scenarios` of a replay buffer."""


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
        source: Where the requirement comes from, such as a paper or an issue; may be empty.
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
    source: str = ""


RULES: dict[str, Rule] = {}
"""All rules on environments, by code."""


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
    source: str = "",
    rules: dict[str, Rule] = RULES,
) -> Callable[[Check], Check]:
    """Register the decorated function in ``rules``; the other arguments are those of `Rule`."""

    def register(check: Check) -> Check:
        rules[code] = Rule(
            code, name, severity, meaning, fix, wrong.strip("\n"), right.strip("\n"),
            needs, inconclusive_without, implies, adapter, passive, check, source,
        )  # fmt: skip
        return check

    return register


def selected(select: Iterable[str], ignore: Iterable[str], rules: Mapping[str, Rule] = RULES) -> list[Rule]:
    """Return the rules whose codes begin with one of ``select`` (all if empty) and none of ``ignore``.

    Raises:
        ValueError: A prefix fits no rule.
    """
    chosen, ignored = _prefixes(select), _prefixes(ignore)
    for prefix in chosen + ignored:
        if not any(code.startswith(prefix) for code in rules):
            raise ValueError(unknown_code(prefix, rules))
    return [
        rule
        for code, rule in sorted(rules.items())
        if (not chosen or code.startswith(chosen)) and not (ignored and code.startswith(ignored))
    ]


def _prefixes(codes: Iterable[str]) -> tuple[str, ...]:
    return (codes,) if isinstance(codes, str) else tuple(codes)


def unknown_code(code: Any, rules: Iterable[str] = RULES) -> str:
    """Return the error message for an unknown rule code."""
    near = difflib.get_close_matches(str(code), rules, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`her rules` lists them"
    return f"unknown rule code {code!r}; {hint}"
