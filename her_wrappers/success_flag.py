"""The success flag: what an info says of success, under either of the two names in use."""

from __future__ import annotations

from typing import Any

import numpy as np

from her_wrappers.trees import NUMBERS

FLAG_NAMES = ("is_success", "success")


def flag_name(info: Any) -> str | None:
    """Return the name under which an info tells success, or None."""
    return next((name for name in FLAG_NAMES if isinstance(info, dict) and name in info), None)


def flag_of(info: Any) -> bool | None:
    """Return whether an info tells success, or None where it does not say."""
    name = flag_name(info)
    if name is None:
        return None
    try:
        value = np.asarray(info[name])
    except ValueError:  # of lists of unlike length, which make no array
        return None
    return bool(value.reshape(-1)[0]) if value.size == 1 and value.dtype.kind in NUMBERS else None
