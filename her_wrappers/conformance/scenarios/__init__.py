"""Scenarios: functions that fill a new buffer, sample from it, and return the batches for the rules.

This package registers all scenarios in `SCENARIOS`.
"""

from her_wrappers.conformance.scenarios import options, sampling, state, storage
from her_wrappers.conformance.scenarios.driver import SCENARIOS

__all__ = ["SCENARIOS", "options", "sampling", "state", "storage"]
