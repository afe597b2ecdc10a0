"""Adapters that are incomplete, raise, hang, or return nonsense get findings or one clear sentence."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers.conformance import ReplayAdapter, ReplayError, check_replay
from tests.support.replay_specimens.reference import Reference


class Incomplete(ReplayAdapter):
    name, offers = "incomplete", frozenset({"future"})


@pytest.mark.parametrize(
    ("adapter", "error", "message"),
    [
        (3, TypeError, "adapter: expected a subclass of ReplayAdapter, got 3"),
        (Incomplete, TypeError, "Incomplete: define __init__, add, sample"),
        (type("Empty", (Reference,), {"offers": set()}), ValueError, "Empty.offers: expected one of future"),
        (type("Odd", (Reference,), {"offers": {"futur"}}), ValueError, "Odd.offers: unknown 'futur'"),
        (type("Odd", (Reference,), {"termination": "keeps"}), ValueError, "got 'keeps'"),
    ],
)
def test_a_wrong_adapter_is_rejected_with_one_sentence(adapter, error, message):
    with pytest.raises(error, match=message):
        check_replay(adapter)


def test_bad_options_are_rejected():
    with pytest.raises(ValueError, match="unknown rule code 'HB999'"):
        check_replay(Reference, select=["HB999"])
    with pytest.raises(ValueError, match="seed"):
        check_replay(Reference, seed=-1)


class Hangs(Reference):
    def sample(self, batch_size):
        while True:
            pass


def without(key):
    def sample(self, batch_size):
        batch = Reference.sample(self, batch_size)
        del batch[key]
        return batch

    return sample


def replaced(key, change):
    def sample(self, batch_size):
        batch = Reference.sample(self, batch_size)
        return batch | {key: change(batch[key])}

    return sample


def raises(self, *arguments):
    raise KeyError("goal")


@pytest.mark.parametrize(
    ("methods", "code", "got"),
    [
        ({"sample": raises}, "HB001", "KeyError: 'goal'"),
        ({"add": lambda *arguments, **options: raises(None)}, "HB001", "KeyError: 'goal'"),
        ({"sample": lambda self, n: None}, "HB002", "a NoneType"),
        ({"sample": without("next_achieved_goal")}, "HB002", "a dict without next_achieved_goal"),
        ({"sample": replaced("reward", lambda x: x[:, None])}, "HB003", "shape (128, 1)"),
        ({"sample": replaced("reward", lambda x: [None] * len(x))}, "HB003", "dtype object"),
        ({"sample": replaced("reward", lambda x: x[:-1])}, "HB003", "shape (127,)"),
        ({"sample": Hangs.sample}, "HB004", "not completed"),
    ],
)
def test_a_failure_is_one_finding_without_a_traceback(methods, code, got):
    report = check_replay(type("Failing", (Reference,), methods), max_seconds=20 if code != "HB004" else 2)
    (finding,) = report.findings
    assert (finding.code, finding.got) == (code, got)
    (gap,) = report.not_exercised
    assert "HB101" in gap.codes
    with pytest.raises(ReplayError, match=code):
        report.raise_if_errors()


def test_rows_that_were_never_added_are_one_finding():
    def sample(self, batch_size):
        return {key: np.zeros_like(values) for key, values in Reference.sample(self, batch_size).items()}

    report = check_replay(type("Zeros", (Reference,), {"sample": sample}))
    assert report.codes == ["HB005"]


def test_what_is_not_offered_is_not_a_finding():
    class OnlyFuture(Reference):
        offers = frozenset({"future"})

        save = load = None

    report = check_replay(OnlyFuture)
    assert not report.findings, report.text()
    assert {"HB107", "HB108", "HB109", "HB605", "HB701"} <= {
        code for gap in report.not_offered for code in gap.codes
    }
