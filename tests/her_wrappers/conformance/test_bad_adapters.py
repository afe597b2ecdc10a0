"""Adapters that are incomplete, raise, do not return, or return wrong values give findings or one error."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers.conformance import ReplayAdapter, ReplayError, check_replay
from tests.support.replay_specimens.full import Full
from tests.support.replay_specimens.reference import Reference


class Incomplete(ReplayAdapter):
    name, offers = "incomplete", frozenset({"future"})


@pytest.mark.parametrize(
    ("adapter", "error", "message"),
    [
        (3, TypeError, "adapter: expected a subclass of ReplayAdapter, got 3"),
        (Incomplete, TypeError, "define __init__, add, sample"),
        (
            type("Empty", (Reference,), {"offers": set()}),
            ValueError,
            "Empty.offers: expected at least one strategy of future",
        ),
        (type("Odd", (Reference,), {"offers": {"futur"}}), ValueError, "Odd.offers: unknown feature 'futur'"),
        (type("Odd", (Reference,), {"termination": "keeps"}), ValueError, "got 'keeps'"),
        (
            type("Odd", (Reference,), {"offers": "future"}),
            TypeError,
            "expected a class attribute of type set",
        ),
        (type("Odd", (Reference,), {"offers": None}), TypeError, "expected a class attribute of type set"),
        (type("Odd", (Reference,), {"name": None}), TypeError, "Odd.name: expected a class attribute"),
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


def exits(self, batch_size):
    raise SystemExit(3)


def add_without_end_episode(self, *transition, env_index=0):
    """Add a transition as `Reference` does, without the method end_episode of the adapter."""
    terminated, truncated = transition[4:6]
    Reference.add(self, *transition[:4], False, False, transition[6], env_index)
    self.open[env_index][-1] |= {"terminated": np.array(terminated), "truncated": np.array(truncated)}
    if terminated or truncated:
        Reference.end_episode(self, env_index)


UNEXPECTED_ARGUMENT = "TypeError: <lambda>() got an unexpected keyword argument 'buffer_size'"


@pytest.mark.parametrize(
    ("methods", "code", "got"),
    [
        ({"sample": raises}, "HB001", "KeyError: 'goal'"),
        ({"add": lambda *arguments, **options: raises(None)}, "HB001", "KeyError: 'goal'"),
        ({"sample": exits}, "HB001", "SystemExit: 3"),
        ({"__init__": lambda self, env: None}, "HB001", UNEXPECTED_ARGUMENT),
        ({"add": lambda *arguments, **options: None}, "HB001", "ValueError: high <= 0"),
        ({"sample": lambda self, n: None}, "HB002", "a NoneType"),
        ({"sample": replaced("reward", lambda x: x + 0j)}, "HB003", "dtype complex128"),
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


def zeros(values):
    return np.zeros_like(values)


def noise(values):
    return np.random.default_rng(0).normal(scale=100, size=values.shape)


@pytest.mark.parametrize("change", [zeros, noise])
def test_rows_that_were_never_added_are_one_finding(change):
    def sample(self, batch_size):
        return {key: change(values) for key, values in Reference.sample(self, batch_size).items()}

    report = check_replay(type("Invented", (Reference,), {"sample": sample}), select=["HB0", "HB1", "HB3"])
    assert report.codes == ["HB005"]


INVALID = {
    "NaN": lambda values: values * np.nan,
    "infinity": lambda values: values + np.inf,
    "1e300": lambda values: values + 1e300,
    "2**64 - 1": lambda values: np.full(values.shape, 2**64 - 1, np.uint64),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", INVALID)
@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("observation", "HB005"),
        ("next_achieved_goal", "HB005"),
        ("desired_goal", "HB101"),
        ("next_desired_goal", "HB111"),
        ("reward", "HB301"),
    ],
)
def test_values_that_cannot_be_decoded_are_findings(key, code, value):
    adapter = type("Invalid", (Reference,), {"sample": replaced(key, INVALID[value])})
    assert check_replay(adapter, select=["HB0", code]).codes == [code]


@pytest.mark.parametrize(
    ("offer", "method", "code"),
    [
        ("end episode", "end_episode", "HB512"),
        ("save", "save", "HB605"),
        ("priorities", "update_priorities", "HB801"),
    ],
)
def test_an_offer_without_its_method_is_a_finding_that_names_it(offer, method, code):
    adapter = type("Incomplete", (Full,), {method: getattr(ReplayAdapter, method)})
    if method == "end_episode":
        adapter.add = add_without_end_episode
    (finding,) = check_replay(adapter, select=[code]).findings
    assert (finding.code, finding.got) == (
        code,
        f"NotImplementedError: define {method}, or remove '{offer}' from offers",
    )


def test_what_is_not_offered_is_not_a_finding():
    class OnlyFuture(Reference):
        offers = frozenset({"future"})

        save = load = None

    report = check_replay(OnlyFuture)
    assert not report.findings, report.text()
    assert {"HB107", "HB108", "HB109", "HB605", "HB701"} <= {
        code for gap in report.not_offered for code in gap.codes
    }
