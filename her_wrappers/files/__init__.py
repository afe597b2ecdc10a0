"""Files of named arrays, which are written atomically and read without unpickling."""

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A value that ``json.dumps`` writes and ``json.loads`` reads without a change."""
