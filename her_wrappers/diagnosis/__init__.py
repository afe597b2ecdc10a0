"""The diagnosis of a run: facts of its episodes and its history, rules, and a report."""

from her_wrappers.diagnosis.diagnose import diagnose
from her_wrappers.diagnosis.rules import DIAGNOSIS_RULES

__all__ = ["DIAGNOSIS_RULES", "diagnose"]
