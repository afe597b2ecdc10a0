"""An environment that cannot be copied, and the rules that a report lists as not exercised."""

from tests.support.specimens.reach import Reach


class Uncopyable(Reach):
    """An environment that cannot be copied, like a simulator whose state is in another library."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot copy the simulator")


def gaps(report):
    """Return the codes of the rules that the check did not exercise, as a dict from reason to codes."""
    return {gap.reason: gap.codes for gap in report.not_exercised}
