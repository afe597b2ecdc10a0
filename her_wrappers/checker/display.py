"""Output of reports and rules on a terminal, with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from her_wrappers.rules import Rule

COLORS = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def print_report(report: Any, console: Console) -> None:
    """Print the summary, the findings with their first violations, and the rules that were not exercised."""
    console.print(escape(report.summary()))
    for finding in report.findings:
        console.print(f"\n{_colored(finding.severity)} [bold]{finding.code}[/] {finding.name}")
        console.print(_finding_table(finding))
    for gap in report.not_exercised:
        console.print(f"\n[dim]not exercised:[/] {escape(str(gap))}")


def print_rules(rules: Iterable[Rule], console: Console) -> None:
    """Print a table of rules: code, name, severity and meaning."""
    table = Table("code", "name", "severity", "meaning", header_style="bold")
    for rule in rules:
        table.add_row(rule.code, rule.name, _colored(rule.severity), escape(rule.meaning))
    console.print(table)


def print_explanation(rule: Rule, console: Console) -> None:
    """Print one rule with its fix, its repair, and a wrong and a right example."""
    console.print(f"[bold]{rule.code} {rule.name}[/] ({_colored(rule.severity)})")
    console.print(escape(f"{rule.meaning}\nFix: {rule.fix}."))
    if rule.threshold:
        console.print(escape(f"Threshold: {rule.threshold}."))
    if rule.source:
        console.print(escape(f"Source: {rule.source}."))
    if getattr(rule, "repair", ""):
        console.print(escape(f"Alternatively, wrap the environment in her_wrappers.repairs.{rule.repair}."))
    for title, example in (("Wrong", rule.wrong), ("Right", rule.right)):
        console.print(f"\n[bold]{title}[/]")
        console.print(Syntax(example, "python", background_color="default", word_wrap=True), soft_wrap=False)


def _finding_table(finding: Any) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 1), pad_edge=True)
    where = ", ".join(filter(None, (finding.subject, finding.place)))
    message = finding.message if isinstance(finding.message, str) else finding.message()  # of checker.report
    repair = getattr(finding, "repair", "")
    rows = {
        "where": f"{where} ({finding.count} times)" if finding.count > 1 else where,
        "found": message,
        "cause": getattr(finding, "caused_by", ""),
        "fix": finding.fix,
        "repair": repair and f"her_wrappers.repairs.{repair}",
    }
    for name, text in rows.items():
        if text:
            table.add_row(f"[dim]{name}[/]", escape(text))
    return table


def _colored(severity: str) -> str:
    return f"[{COLORS[severity]}]{severity}[/]"
