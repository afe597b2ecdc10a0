"""Conformance suite: rules that any HER replay buffer can be checked with."""

from her_wrappers.conformance.adapter import ReplayAdapter
from her_wrappers.conformance.check import check_replay, parametrize_with_rules
from her_wrappers.conformance.rules import REPLAY_RULES

__all__ = ["REPLAY_RULES", "ReplayAdapter", "check_replay", "parametrize_with_rules"]
