"""Helpers of the checker's tests."""

from __future__ import annotations

from tests.support.specimens.reach import Reach


class Uncopyable(Reach):
    """Cannot be copied, like a simulator whose state is in another library."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot copy the simulator")


def gaps(report):
    """Return the codes that were not exercised, for each reason."""
    return {gap.reason: gap.codes for gap in report.not_exercised}
