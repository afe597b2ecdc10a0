"""The diagnosis of a training: facts of its episodes and its history, rules, and a report."""

from her_wrappers.diagnosis.diagnose import diagnose

__all__ = ["diagnose"]
