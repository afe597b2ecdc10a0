"""Which numbers the options of a training and of an agent may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from her_wrappers.arguments import require_count

Rule = tuple[Callable[[float], bool], str]

POSITIVE: Rule = (lambda number: number > 0, "lie in (0, inf)")
NOT_NEGATIVE: Rule = (lambda number: number >= 0, "lie in [0, inf)")

RULES: dict[str, Rule] = {
    "gamma": (lambda number: 0 < number < 1, "lie in (0, 1)"),
    "updates_per_step": POSITIVE,
    "learning_rate": POSITIVE,
    "temperature": POSITIVE,
    "tau": (lambda number: 0 < number <= 1, "lie in (0, 1]"),
    "epsilon": (lambda number: 0 <= number <= 1, "lie in [0, 1]"),
    "noise": NOT_NEGATIVE,
    "action_l2": NOT_NEGATIVE,
    "target_noise": NOT_NEGATIVE,
    "target_noise_clip": NOT_NEGATIVE,
    "target_entropy": (lambda number: True, "be a finite number"),
}


def require_number(name: str, value: object) -> None:
    """Refuse a value that the option cannot have.

    Raises:
        ValueError: It is no finite number, or none of those that may be.
    """
    may_be, words = RULES[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and may_be(value)):  # type: ignore[arg-type] # is a number
        raise ValueError(f"{name} must {words}, got {value!r}")


def require_agent_options(options: Mapping[str, Any]) -> None:
    """Refuse values that no agent can have; who knows which option is for `make_agent` to say.

    Raises:
        ValueError: There is one.
    """
    for name in options.keys() & RULES.keys():
        require_number(name, options[name])
    if "policy_delay" in options:
        require_count("policy_delay", options["policy_delay"], at_least=1)
    hidden = options.get("hidden", [])
    if not isinstance(hidden, list | tuple):
        raise ValueError(f"hidden must be a list of whole numbers, got {hidden!r}")  # noqa: TRY004 - as its entries
    for units in hidden:
        require_count("each of hidden", units, at_least=1)
