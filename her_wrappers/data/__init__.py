"""Nested arrays, spaces and infos, and files of named arrays, which are read without unpickling."""

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A value that ``json.dumps`` writes and ``json.loads`` reads without a change."""
