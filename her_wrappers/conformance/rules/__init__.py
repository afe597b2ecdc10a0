"""The rules; importing this package adds them all to `REPLAY_RULES`."""

from her_wrappers.conformance.registry import REPLAY_RULES
from her_wrappers.conformance.rules import distributions, independence  # noqa: F401

__all__ = ["REPLAY_RULES"]
