"""The rules; importing this package adds them all to `REPLAY_RULES`."""

from her_wrappers.conformance.registry import REPLAY_RULES
from her_wrappers.conformance.rules import goals, independence, priorities, sampling  # noqa: F401

__all__ = ["REPLAY_RULES"]
