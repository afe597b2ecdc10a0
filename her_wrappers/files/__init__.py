"""Named arrays on disk: files that are complete or absent, and are read without trust."""

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""What ``json.dumps`` writes and ``json.loads`` returns unchanged."""
