"""Helpers: checks of arguments, texts of errors, warnings, HTML pages, and calls of policies."""
