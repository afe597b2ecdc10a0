"""The rules, one file a family; importing this package registers them all."""

from her_wrappers.checker.rules import (
    aliasing,
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
    "determinism",
    "infos",
    "relabeling",
    "reward",
    "spaces",
    "success",
    "termination",
    "vector",
]
