"""The page on the diagnosis agrees with the rules."""

from __future__ import annotations

import re

from her_wrappers.commands.train import FIRST_DIAGNOSIS
from her_wrappers.diagnosis.diagnose import DIAGNOSIS_RULES
from tests.support.pages import ROOT

PAGE = (ROOT / "docs/doctor.md").read_text()


def test_the_page_names_the_number_of_the_code():
    assert f"when the first {FIRST_DIAGNOSIS} evaluations had no success" in PAGE


def test_codes_in_the_text_exist():
    assert set(re.findall(r"GD\d+", PAGE)) == DIAGNOSIS_RULES.keys()
