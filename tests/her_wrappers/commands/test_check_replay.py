"""``her check-replay`` reports findings of an adapter."""

import json

from tests.support.commands import succeeds

REFERENCE = "tests.support.replay_specimens.reference:Reference"


def test_the_report_in_json_is_that_of_the_adapter():
    output = succeeds("check-replay", REFERENCE, "--select", "HB4", "--format", "json")
    report = json.loads(output)
    assert (report["target"], report["findings"]) == ("reference", [])
