"""A pytest plugin that stores the duration of each test, and can run only the quickest tests.

python -m pytest -p tools.quickest                # only stores durations
python -m pytest -p tools.quickest --budget 100   # the quickest tests, 100 s on one core in total
"""

from __future__ import annotations

import pytest

KEY = "her-toolkit/seconds"
UNKNOWN = 0.1  # seconds of a test that never ran, about the mean of all tests


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --budget."""
    help_text = "run the quickest tests, as long as the sum of their last durations is at most SECONDS"
    parser.addoption("--budget", type=float, metavar="SECONDS", help=help_text)


def pytest_configure(config: pytest.Config) -> None:
    """Read the durations of the last runs."""
    if config.cache is not None:
        config.pluginmanager.register(Seconds(config), "seconds of tests")


class Seconds:
    """The durations of all tests, stored in the cache of pytest [s]."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.last: dict[str, float] = config.cache.get(KEY, {}) if config.cache is not None else {}
        self.now: dict[str, float] = {}

    @pytest.hookimpl(trylast=True)  # after the markers have deselected tests
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the quickest tests whose total duration is within the budget, in the original order."""
        left = self.config.getoption("budget")
        if left is None:
            return
        kept = set()
        for item in sorted(items, key=lambda item: self.last.get(item.nodeid, UNKNOWN)):
            left -= self.last.get(item.nodeid, UNKNOWN)
            if left < 0:
                break
            kept.add(item.nodeid)
        dropped = [item for item in items if item.nodeid not in kept]
        items[:] = [item for item in items if item.nodeid in kept]
        self.config.hook.pytest_deselected(items=dropped)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration of the setup, the call or the teardown of a test."""
        self.now[report.nodeid] = self.now.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Store the durations; if several processes run the tests, only the main process stores them."""
        if self.config.cache is not None and not hasattr(self.config, "workerinput"):
            self.config.cache.set(KEY, self.last | {test: round(s, 3) for test, s in self.now.items()})
