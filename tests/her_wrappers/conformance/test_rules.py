"""Every rule on replay buffers explains itself, and can be listed."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers.conformance.adapter import OFFERS
from her_wrappers.conformance.registry import REPLAY_RULES
from her_wrappers.conformance.scenarios import SCENARIOS
from her_wrappers.conformance.statistics import LIMIT, proportion_z, uniformity_z
from tests.support.commands import her


@pytest.mark.parametrize("rule", REPLAY_RULES.values(), ids=REPLAY_RULES)
def test_every_rule_explains_itself(rule):
    assert rule.meaning.endswith(".")
    assert not rule.fix.endswith(".")
    assert rule.source
    assert not rule.source.endswith(".")
    assert rule.wrong != rule.right
    assert rule.check.__doc__
    assert set(rule.needs) <= OFFERS.keys()
    assert set(rule.implies) <= REPLAY_RULES.keys() - {rule.code}
    output = her("rules", rule.code.lower()).output
    assert rule.meaning in output
    assert rule.source in output


def test_every_scenario_is_described():
    assert all(name.islower() for name in SCENARIOS)


def test_rules_of_both_kinds_are_listed():
    assert "HB101" in her("rules").output
    assert "HB101" not in her("rules").output


def test_the_command_reports_in_json_with_what_is_not_offered():
    name = "tests.support.replay_specimens.reference:Reference"
    result = her("check-replay", name, "--select", "HB1", "--format", "json")
    assert result.exit_code == 0, result.output
    assert '"environment": "reference"' in result.output
    assert '"findings": []' in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["json"], "expected module:Adapter"),
        (["json:nothing"], "json has no class 'nothing'"),
        (["json:dumps"], "expected a subclass of ReplayAdapter"),
        (["no_such_module:Adapter"], "No module named 'no_such_module'"),
    ],
)
def test_wrong_usage_ends_with_two_and_one_sentence(arguments, message):
    result = her("check-replay", *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_uniform_counts_are_accepted_and_others_are_not():
    rng = np.random.default_rng(0)
    scores = [uniformity_z([rng.multinomial(600, np.full(6, 1 / 6))]) for _ in range(2000)]
    assert max(scores) < LIMIT
    assert uniformity_z([np.array([50, 100, 100, 100, 100, 50])]) > 4
    assert uniformity_z([np.array([0, 120, 120, 120, 120, 120])]) > LIMIT
    assert uniformity_z([np.array([3, 1])]) == 0


def test_a_share_is_accepted_within_its_deviation():
    assert proportion_z(800, 1000, 0.8) == 0
    assert proportion_z(640, 1000, 0.8) > LIMIT
    assert proportion_z(0, 0, 0.8) == 0
