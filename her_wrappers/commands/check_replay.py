"""``her check-replay``: check a replay buffer through its adapter."""

from __future__ import annotations

from typing import Annotated

from tyro.conf import Positional, arg

from her_wrappers.commands import terminal
from her_wrappers.conformance import check_replay as run_check
from her_wrappers.goals.environments import import_callable

FORMS = "module:Adapter or path/to/file.py:Adapter, a subclass of her_wrappers.conformance.ReplayAdapter"


def check_replay(
    adapter: Positional[Annotated[str, arg(metavar="ADAPTER", help=f"The adapter of the buffer: {FORMS}.")]],
    *,
    seed: terminal.NotNegative = 0,
    reporting: terminal.Reporting = terminal.DEFAULT_REPORTING,
) -> int:
    """Check a HER replay buffer.

    For example:

    - her check-replay my_buffer:MyAdapter
    - her check-replay her_wrappers.conformance.adapters.ours:Ours --format json

    Args:
        seed: Seed of the buffers, and of the episodes that are added to them.
    """
    with terminal.exits_with(2, TypeError, ValueError), reporting.alone():
        checked = import_callable(adapter, "ADAPTER", FORMS)
        report = run_check(checked, **reporting.prefixes(), seed=seed)
    return reporting.finish(report)
