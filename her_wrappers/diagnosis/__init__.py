"""The diagnosis of a run: rules judge its episodes and its history, and a report lists the findings."""

from her_wrappers.diagnosis.diagnose import diagnose
from her_wrappers.diagnosis.rules import DIAGNOSIS_RULES

__all__ = ["DIAGNOSIS_RULES", "diagnose"]
