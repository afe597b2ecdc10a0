"""Tests that the quotations in the scoreboard occur in the docstrings of the installed libraries."""

from __future__ import annotations

import inspect
from functools import reduce

import pytest

from benchmarks.scoreboard_claims import CLAIMS

CASES = [(adapter, claim) for adapter, claims in CLAIMS.items() for claim in claims]


@pytest.mark.parametrize(("adapter", "claim"), CASES)
def test_the_documentation_has_the_quotation(adapter, claim):
    module, _, name = claim.source.partition(":")
    documented = reduce(getattr, name.split("."), pytest.importorskip(module))
    assert claim.quote in " ".join(inspect.getdoc(documented).split())
