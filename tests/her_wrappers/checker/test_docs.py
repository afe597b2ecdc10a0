"""The documentation of the checker agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from her_wrappers import GoalEnvChecker
from her_wrappers.checker.registry import RULES

DOCS = Path(__file__).parents[3] / "docs"


def test_the_example_for_a_test_suite_works():
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "checking.md").read_text(), re.S)
    namespace = {}
    exec(program, namespace)
    namespace["test_my_environment_is_fit_for_relabeling"]()


def test_the_docstring_of_the_wrapper_names_its_rules():
    passive = {code for code, rule in RULES.items() if rule.passive}
    assert set(re.findall(r"GE\d+", GoalEnvChecker.__doc__)) == passive


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_has_an_explanation_and_examples(rule):
    assert rule.meaning.endswith(".")
    assert not rule.fix.endswith(".")
    assert rule.wrong != rule.right
    assert rule.check.__doc__


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_implies_existing_other_rules(rule):
    assert set(rule.implies) <= RULES.keys() - {rule.code}


def test_the_page_on_real_environments_names_existing_codes():
    text = (DOCS / "real_environments.md").read_text()
    assert set(re.findall(r"GE\d+", text)) <= RULES.keys()
