"""The success flag of an info: ``is_success`` or ``success``."""

from __future__ import annotations

from typing import Any

import numpy as np

from her_wrappers.data.trees import NUMBERS

FLAG_NAMES = ("is_success", "success")


def flag_name(info: Any) -> str | None:
    """Return the key of the success flag in an info; None if the info has no flag or is not a dict."""
    return next((name for name in FLAG_NAMES if isinstance(info, dict) and name in info), None)


def flag_of(info: Any) -> bool | None:
    """Return the success flag of an info, or None if the flag is missing or not a single number or bool."""
    name = flag_name(info)
    if name is None:
        return None
    try:
        value = np.asarray(info[name])
    except ValueError:  # lists of different lengths
        return None
    return bool(value.reshape(-1)[0]) if value.size == 1 and value.dtype.kind in NUMBERS else None
