"""Priorities: transitions that are drawn more often than others."""
