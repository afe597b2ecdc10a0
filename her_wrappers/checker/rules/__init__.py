"""The rules, one file a family; importing this package registers them all."""

from her_wrappers.checker.rules import (
    aliasing,
    buffer_use,
    determinism,
    infos,
    relabeling,
    reward,
    spaces,
    success,
    termination,
    vector,
)

__all__ = [
    "aliasing",
    "buffer_use",
    "determinism",
    "infos",
    "relabeling",
    "reward",
    "spaces",
    "success",
    "termination",
    "vector",
]
