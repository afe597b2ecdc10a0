"""Adapters that are incomplete, raise, do not return, or return wrong values give findings or one error."""

import time

import numpy as np
import pytest

from her_wrappers.conformance import ReplayAdapter, check_replay
from her_wrappers.conformance.driver import ScenarioError
from her_wrappers.rules import ReportError
from tests.support.replay_specimens.reference import Full, Reference, check_quickly


@pytest.mark.parametrize(
    ("adapter", "error", "message"),
    [
        (3, TypeError, "got 3"),
        (type("Empty", (Reference,), {"offers": set()}), ValueError, "Empty.offers"),
        (type("Odd", (Reference,), {"offers": {"futur"}}), ValueError, "unknown feature 'futur'"),
        (type("Odd", (Reference,), {"termination": "keeps"}), ValueError, "got 'keeps'"),
        (type("Odd", (Reference,), {"evicts": "rows"}), ValueError, "Odd.evicts"),
        (type("Odd", (Reference,), {"offers": None}), TypeError, "Odd.offers"),
        (type("Odd", (Reference,), {"name": None}), TypeError, "Odd.name"),
    ],
)
def test_a_wrong_adapter_is_rejected_with_one_sentence(adapter, error, message):
    with pytest.raises(error, match=message):
        check_replay(adapter)


def test_bad_options_are_rejected():
    with pytest.raises(ValueError, match="HB999"):
        check_replay(Reference, select=["HB999"])
    with pytest.raises(ValueError, match="seed"):
        check_replay(Reference, seed=-1)


def replaced(key, change):
    def sample(self, batch_size):
        batch = Reference.sample(self, batch_size)
        return batch | {key: change(batch[key])}

    return sample


def raising(error):
    def method(*arguments, **options):
        raise error

    return method


def hangs(*arguments, **options):
    time.sleep(3)


@pytest.mark.parametrize(
    ("methods", "code", "message"),
    [
        ({"add": raising(KeyError("goal"))}, "HB001", "KeyError: 'goal'"),
        ({"sample": raising(TimeoutError("no answer"))}, "HB001", "TimeoutError: no answer"),
        ({"sample": raising(SystemExit(3))}, "HB001", "SystemExit: 3"),
        ({"__init__": lambda self, env: None}, "HB001", "TypeError"),
        ({"sample": lambda self, n: None}, "HB002", "NoneType"),
        ({"sample": lambda self, n: {"reward": np.zeros(n)}}, "HB002", "next_achieved_goal"),
        ({"sample": replaced("reward", lambda x: x[:, None])}, "HB003", "(128, 1)"),
        ({"sample": replaced("reward", lambda x: [None] * len(x))}, "HB003", "object"),
        ({"__init__": hangs}, "HB004", "0.5 seconds"),
        ({"sample": replaced("observation", np.zeros_like)}, "HB501", "observation of a row"),
    ],
)
def test_a_failure_of_the_first_scenario_is_one_finding(methods, code, message):
    report = check_quickly(type("Failing", (Reference,), methods), max_seconds=60 if code != "HB004" else 0.5)
    (finding,) = report.findings
    assert finding.code == code
    assert message in finding.message
    (gap,) = report.not_exercised
    assert {"HB120", "HB606"} <= set(gap.codes)
    with pytest.raises(ReportError, match=code):
        report.raise_if_errors()


def test_a_scenario_that_does_not_end_is_the_last_one():
    class Stopped(Reference):
        def evict(self):  # not in the first scenarios
            raise ScenarioError("HB004", "the scenario did not end")

    report = check_quickly(Stopped, select=["HB0", "HB120", "HB122"])
    (finding,) = report.findings
    assert (finding.code, finding.subject) == ("HB004", "scenario 'full buffer'")
    (gap,) = report.not_exercised
    assert gap.codes == ("HB120", "HB122")


INVALID = {
    "NaN": lambda values: values * np.nan,
    "1e300": lambda values: values + 1e300,
    "2**64 - 1": lambda values: np.full(values.shape, 2**64 - 1, np.uint64),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", INVALID)
@pytest.mark.parametrize(
    ("key", "code"), [("observation", "HB501"), ("desired_goal", "HB101"), ("reward", "HB301")]
)
def test_values_that_cannot_be_decoded_are_findings(key, code, value):
    adapter = type("Invalid", (Reference,), {"sample": replaced(key, INVALID[value])})
    assert check_quickly(adapter, select=[code]).codes == [code]


@pytest.mark.parametrize(
    ("offer", "method", "code"), [("save", "save", "HB730"), ("priorities", "update_priorities", "HB760")]
)
def test_an_offer_without_its_method_is_a_finding_that_names_it(offer, method, code):
    adapter = type("Incomplete", (Full,), {method: getattr(ReplayAdapter, method)})
    (finding,) = check_quickly(adapter, select=[code]).findings
    assert finding.code == code
    assert f"define {method}(), or remove '{offer}' from offers" in finding.message
