"""The page `findings.md`: the findings of one planted fault for each rule, with `#` for varying numbers.

`python -m tests.support.specimens.findings` writes the page; review the difference.
"""

import re
from pathlib import Path

from her_wrappers.checker import check_goal_env
from tests.support.specimens.broken import FAULTS

RANDOM = {"GE111", "GE112", "GE401", "GE403"}
"""Codes of faults whose reports have different numbers in each run; the page has `#` instead."""

PAGE = Path(__file__).with_name("findings.md")
MAX_STEPS = 250


def report_of(specimen, seed=0):
    """Return the report of a specimen."""
    return check_goal_env(specimen, max_steps=MAX_STEPS, seed=seed)


def findings_in(report, code):
    """Return the findings of a report in one line each, without values that differ from run to run."""
    lines = [f"- {each.severity} {each.code} {each.name}: {each.description}" for each in report.findings]
    text = re.sub(r"raised in \S*?(\w+\.py), line \d+", r"raised in \1, line #", "\n".join(lines))
    return re.sub(r"(?<!GE)-?\b\d[\d.e-]*\b|True|False", "#", text) if code in RANDOM else text


def read_findings():
    """Return the findings of the page, by the names of the specimens."""
    parts = PAGE.read_text(encoding="utf-8").split("## ")[1:]
    named = (part.partition("\n\n") for part in parts)
    return {name: text.strip() for name, _, text in named}


def main():
    """Write the page."""
    first = {code: specimen for specimen, code in reversed(FAULTS)}
    parts = [
        f"## {specimen.__name__}\n\n{findings_in(report_of(specimen), code)}\n"
        for code, specimen in sorted(first.items())
    ]
    PAGE.write_text(
        "# Findings of the checker, one fault for each rule\n\n" + "\n".join(parts), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
