"""``her check-replay`` reports findings of an adapter; wrong usage has exit code 2."""

import json

import pytest

from tests.support.commands import her

REFERENCE = "tests.support.replay_specimens.reference:Reference"


def test_the_report_in_json_is_that_of_the_adapter():
    result = her("check-replay", REFERENCE, "--select", "HB4", "--format", "json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert (report["target"], report["findings"]) == ("reference", [])


@pytest.mark.parametrize("adapter", ["json", "json:nothing", "json:dumps", "no_such_module:Adapter"])
def test_an_adapter_that_does_not_exist_is_wrong_usage(adapter):
    assert her("check-replay", adapter).exit_code == 2
