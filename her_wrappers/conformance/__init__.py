"""Conformance suite: rules that any HER replay buffer can be checked with."""

from her_wrappers.conformance.adapter import ReplayAdapter
from her_wrappers.conformance.check import ReplayError, ReplayReport, check_replay, parametrize_with_rules

__all__ = ["ReplayAdapter", "ReplayError", "ReplayReport", "check_replay", "parametrize_with_rules"]
