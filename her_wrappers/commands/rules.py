"""``her rules``: the rules of ``her check``, ``her check-replay`` and ``her doctor``."""

from __future__ import annotations

from typing import Annotated, Any

from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table
from tyro.conf import Positional, arg

from her_wrappers.checker import GOAL_ENV_RULES
from her_wrappers.commands.terminal import COLORS, CommandError, console
from her_wrappers.conformance import REPLAY_RULES
from her_wrappers.diagnosis import DIAGNOSIS_RULES
from her_wrappers.rules import unknown_code

SUITES: dict[str, Any] = {
    "her check": GOAL_ENV_RULES,
    "her check-replay": REPLAY_RULES,
    "her doctor": DIAGNOSIS_RULES,
}


def rules(code: Positional[Annotated[str | None, arg(metavar="CODE")]] = None) -> None:
    """List all rules, or explain one.

    For example:

    - her rules
    - her rules GE106

    Args:
        code: Code of a rule to explain.
    """
    out = console()
    if code is None:
        for command, suite in SUITES.items():
            table = Table("code", "name", "severity", "meaning", header_style="bold", title=command)
            for _, rule in sorted(suite.items()):
                table.add_row(rule.code, rule.name, _colored(rule.severity), escape(rule.meaning))
            out.print(table)
        return
    known: dict[str, Any] = {**GOAL_ENV_RULES, **REPLAY_RULES, **DIAGNOSIS_RULES}
    rule = known.get(code.upper())
    if rule is None:
        raise CommandError(unknown_code(code, known))
    out.print(f"[bold]{rule.code} {rule.name}[/] ({_colored(rule.severity)})")
    out.print(escape(f"{rule.meaning}\nFix: {rule.fix}."))
    if rule.threshold:
        out.print(escape(f"Threshold: {rule.threshold}."))
    if rule.source:
        out.print(escape(f"Source: {rule.source}."))
    if rule.repair:
        out.print(f"Alternatively, wrap the environment in her_wrappers.repairs.{rule.repair}.")
    for title, example in (("Wrong", rule.wrong), ("Right", rule.right)) if rule.wrong else ():
        out.print(f"\n[bold]{title}[/]")
        out.print(Syntax(example, "python", background_color="default", word_wrap=True), soft_wrap=False)


def _colored(severity: str) -> str:
    return f"[{COLORS[severity]}]{severity}[/]"
