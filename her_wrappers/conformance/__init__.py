"""Is an implementation of Hindsight Experience Replay right? Rules that run on any replay buffer."""

from her_wrappers.conformance.adapter import ReplayAdapter
from her_wrappers.conformance.check import ReplayError, ReplayReport, check_replay, parametrize_with_rules

__all__ = ["ReplayAdapter", "ReplayError", "ReplayReport", "check_replay", "parametrize_with_rules"]
