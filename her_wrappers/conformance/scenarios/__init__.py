"""Scenarios: calls of the methods of a new buffer, and the batches that it returns.

This package registers all scenarios in `SCENARIOS`.
"""

from her_wrappers.conformance.scenarios import options, sampling, state, storage
from her_wrappers.conformance.scenarios.driver import SCENARIOS

__all__ = ["SCENARIOS", "options", "sampling", "state", "storage"]
