"""The rules of the diagnosis, by family; importing them adds them to `DIAGNOSIS_RULES`."""

from her_wrappers.diagnosis.facts import DIAGNOSIS_RULES
from her_wrappers.diagnosis.rules import data, exploration, goals, horizon, learning  # noqa: F401

__all__ = ["DIAGNOSIS_RULES"]
