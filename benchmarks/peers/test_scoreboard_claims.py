"""The quotations of the scoreboard are in the docstrings of the installed versions."""

from __future__ import annotations

import inspect
from functools import reduce

import pytest

from benchmarks.scoreboard import find_adapter
from benchmarks.scoreboard_claims import CLAIMS, OF_THE_INTERFACE

CASES = [(adapter, claim) for adapter, claims in CLAIMS.items() for claim in claims]


@pytest.mark.parametrize(("adapter", "claim"), CASES)
def test_the_documentation_has_the_quotation(adapter, claim):
    module, _, name = claim.source.partition(":")
    documented = reduce(getattr, name.split("."), pytest.importorskip(module))
    assert claim.quote in " ".join(inspect.getdoc(documented).split())


@pytest.mark.parametrize("adapter", CLAIMS)
def test_an_adapter_offers_what_the_documentation_claims(adapter):
    pytest.importorskip(CLAIMS[adapter][0].source.partition(":")[0])
    offers = find_adapter(adapter).offers
    quoted = {offer for claim in CLAIMS[adapter] for offer in claim.offers}
    assert offers - set(OF_THE_INTERFACE) == quoted
