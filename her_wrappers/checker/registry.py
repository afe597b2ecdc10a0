"""Registry of the rules. Each rule is a function in one of the files of `her_wrappers.checker.rules`.

To add a rule, write a generator of `Violation` with the decorator `rule`, and a faulty environment for the
tests.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Violation:
    """One violation of a rule.

    Attributes:
        got: The value found.
        expected: The value that the rule expects.
        place: Episode and step, such as ``"episode 0, step 3"``; empty if the violation has no place.
        subject: The element concerned, such as a key; each subject becomes a separate finding.
        hint: Likely cause; may be empty.
        severity: Severity of this violation, or None for the severity of the rule.
        adapter: Adapter for this violation, or None for the adapter of the rule.
    """

    got: str
    expected: str
    place: str = ""
    subject: str = ""
    hint: str = ""
    severity: Severity | None = None
    adapter: str | None = None


Check: TypeAlias = Callable[[Any], Iterator[Violation]]
"""Function of the evidence: `Evidence`, `ScenarioResults` of a replay buffer, or `Case` of a diagnosis."""


@dataclass(frozen=True)
class Rule:
    """A requirement, and the function that finds its violations.

    Attributes:
        code: ``GE`` (environments), ``HB`` (replay buffers) or ``GD`` (diagnoses), and three digits, of which
            the first is the family.
        name: Name of the rule in words, such as ``"reward-mismatch"``.
        severity: ``"error"`` if training data would be wrong or the run would crash, ``"warning"`` if this
            happens in some uses, ``"info"`` for a note.
        meaning: The fault in one sentence.
        fix: The fix in one line, without a period.
        wrong: Example of code that violates the rule.
        right: The example with the fault corrected.
        needs: Needs that the evidence must meet for the rule to be applied: keys of `evidence.NEEDS`, or
            names that other kinds of evidence define.
        inconclusive_without: Needs without which the absence of findings is inconclusive.
        implies: Codes of rules whose findings follow from a finding of this rule. These findings are not
            reported together with a finding of this rule.
        adapter: Class of `her_wrappers.repairs` that fixes the fault, or an empty text.
        passive: Whether `GoalEnvChecker` applies the rule to an environment in use.
        check: Function that yields the violations.
        source: Source of the requirement, such as a paper or an issue; may be empty.
        threshold: The threshold of the rule and its reason; empty for rules without a threshold.
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
    threshold: str = ""


RULES: dict[str, Rule] = {}
"""The rules on environments, by code; filled when `her_wrappers.checker.rules` is imported."""

REWARD_VALUE_RULES = ("GE101", "GE103", "GE106", "GE119", "GE121", "GE202", "GE205")
"""Rules that compare values of ``compute_reward``; faults of this function can cause their findings."""

SUCCESS_RULES = ("GE115", "GE204", "GE207")
"""Rules that use rewards to decide whether a goal is reached."""


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
    threshold: str = "",
    rules: dict[str, Rule] = RULES,
) -> Callable[[Check], Check]:
    """Return a decorator that registers a function in ``rules``; the other arguments are fields of `Rule`."""

    def register(check: Check) -> Check:
        rules[code] = Rule(
            code, name, severity, meaning, fix, wrong.strip("\n"), right.strip("\n"),
            needs, inconclusive_without, implies, adapter, passive, check, source, threshold,
        )  # fmt: skip
        return check

    return register


def selected(select: Iterable[str], ignore: Iterable[str], rules: Mapping[str, Rule] = RULES) -> list[Rule]:
    """Return the rules whose codes begin with one of ``select`` (all if empty) and none of ``ignore``.

    Args:
        select: Codes or prefixes of codes; a single string counts as one prefix.
        ignore: Codes or prefixes of codes.
        rules: The rules to choose from, by code.

    Raises:
        ValueError: No rule code begins with one of the prefixes.
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
    """Return the error message for an unknown rule code.

    Args:
        code: The unknown code.
        rules: Known codes.
    """
    near = difflib.get_close_matches(str(code), rules, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`her rules` lists them"
    return f"unknown rule code {code!r}; {hint}"
