"""Helpers: checks of arguments, texts of errors, warnings, locks, HTML pages, and calls of policies."""
