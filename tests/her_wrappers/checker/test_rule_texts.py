"""Every rule has texts in the form that reports and pages need, and implies existing rules."""

import pytest

from her_wrappers.checker import GOAL_ENV_RULES


@pytest.mark.parametrize("rule", GOAL_ENV_RULES.values(), ids=GOAL_ENV_RULES)
def test_a_rule_has_an_explanation_and_examples_and_implies_other_rules(rule):
    assert rule.meaning.endswith(".")
    assert not rule.fix.endswith(".")
    assert rule.wrong != rule.right
    assert rule.check.__doc__
    assert set(rule.implies) <= GOAL_ENV_RULES.keys() - {rule.code}
