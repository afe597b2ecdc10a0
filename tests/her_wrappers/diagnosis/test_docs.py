"""The page on the diagnosis agrees with the rules."""

from __future__ import annotations

import re

from her_wrappers.commands.train import FIRST_DIAGNOSIS
from her_wrappers.diagnosis.diagnose import DIAGNOSIS_RULES
from tests.support.pages import ROOT

PAGE = (ROOT / "docs/doctor.md").read_text()


def test_the_table_of_rules_is_complete_and_correct():
    rows = re.findall(r"^\| (GD\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (code, rule.name, rule.severity, rule.meaning, rule.threshold, rule.fix)
        for code, rule in sorted(DIAGNOSIS_RULES.items())
    ]


def test_the_pages_name_the_numbers_of_the_code():
    assert f"when the first {FIRST_DIAGNOSIS} evaluations had no success" in PAGE
    assert f"{len(DIAGNOSIS_RULES)} rules on the episodes" in (ROOT / "CHANGELOG.md").read_text()


def test_codes_in_the_text_exist():
    assert set(re.findall(r"GD\d+", PAGE)) == DIAGNOSIS_RULES.keys()
