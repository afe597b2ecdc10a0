"""The rules; importing this package adds them all to `REPLAY_RULES`."""

from her_wrappers.conformance.registry import REPLAY_RULES
from her_wrappers.conformance.rules import (  # noqa: F401
    demonstrations,
    goals,
    randomness,
    rewards,
    sampling,
    storage,
    terminations,
)

__all__ = ["REPLAY_RULES"]
