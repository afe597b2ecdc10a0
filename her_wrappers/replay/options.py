"""Options of a buffer (not spaces, functions, seed, device): validation, and conversion to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from her_wrappers.data import Json
from her_wrappers.replay.demonstrations import Demonstrations
from her_wrappers.replay.goal_selection import (
    DEFAULT_SAMPLED_GOALS,
    ORIGINAL,
    STRATEGIES,
    Geometric,
    GoalMixture,
    Mixture,
)
from her_wrappers.replay.priorities import Priority
from her_wrappers.replay.relabeling import require_termination
from her_wrappers.support.arguments import require_count, require_flag, require_gamma, require_keys

InfoFormat = Literal["list", "columns"]

SHARES = ("n_sampled_goal", "her_ratio")  # options that give the relabeled share
# Options on which the sampled steps and goals depend
SAMPLING = (*SHARES, "goal_selection_strategy", "resample_achieved_goals", "prioritized")
FUNCTION = {"user's function": None}  # JSON of a user's function, which cannot be saved
MAX_SIZE = 2**62  # largest `buffer_size`: step numbers are int64


def require_options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated options among the arguments of a buffer, or raise TypeError or ValueError."""
    resample = arguments["resample_achieved_goals"]
    options: dict[str, Any] = {
        "buffer_size": require_count("buffer_size", arguments["buffer_size"], at_least=1),
        "n_steps": require_count("n_steps", arguments["n_steps"], at_least=1),
        "gamma": require_gamma(arguments["gamma"]),
        "resample_achieved_goals": require_flag("resample_achieved_goals", resample),
        "info_keys": require_keys("info_keys", arguments["info_keys"]),
    }
    others = (*SHARES, "goal_selection_strategy", "termination", "info_format", "prioritized")
    options |= {name: arguments[name] for name in others}
    demonstrations = arguments["demonstrations"]
    if not isinstance(demonstrations, Demonstrations | None):
        got = type(demonstrations).__name__
        raise TypeError(f"demonstrations must be None or Demonstrations(episodes), got {got}")
    options["demonstrations"] = None if demonstrations is None else demonstrations.share
    if options["buffer_size"] > MAX_SIZE:
        raise ValueError(f"buffer_size must be at most {MAX_SIZE}, got {options['buffer_size']}")
    goal_mixture(options)
    if not _has_share(options["goal_selection_strategy"]) and all(options[name] is None for name in SHARES):
        options["n_sampled_goal"] = DEFAULT_SAMPLED_GOALS
    require_termination(options["termination"])
    if options["info_format"] not in get_args(InfoFormat):
        raise ValueError(f"unknown info_format {options['info_format']!r}; choose from 'list', 'columns'")
    prioritized = options["prioritized"]
    if not isinstance(prioritized, Priority | None):
        raise TypeError(f"prioritized must be a Priority or None, got {prioritized!r}; pass Priority()")
    return options


def _has_share(strategy: Any) -> bool:
    """Whether a strategy is a `Mixture` that sets the share of relabeled rows."""
    return isinstance(strategy, Mixture) and ORIGINAL in strategy.shares


def goal_mixture(options: Mapping[str, Any]) -> GoalMixture:
    """Return the goal selection strategies with their shares of a batch, or raise TypeError or ValueError."""
    strategy = options.get("goal_selection_strategy", "future")
    return GoalMixture(strategy, *(options.get(name) for name in SHARES))


def merged_options(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the saved options updated with ``given``; raise ValueError if ``info_keys`` differ."""
    info_keys = require_keys("info_keys", given.get("info_keys", saved["info_keys"]))
    if list(info_keys) != saved["info_keys"]:
        raise ValueError(
            f"info_keys must be {saved['info_keys']}, as in the saved buffer, got {list(info_keys)}; "
            "leave info_keys= out"
        )
    merged = {**saved, **given}
    if _has_share(given.get("goal_selection_strategy")) or any(
        given.get(name) is not None for name in SHARES
    ):
        merged |= {name: given.get(name) for name in SHARES}  # instead of the saved share
    return merged


def options_to_json(options: Mapping[str, Any]) -> dict[str, Json]:
    """Return options as JSON, leaving out each option that is or contains a function of the user."""
    described = {name: _to_json(value) for name, value in options.items()}
    return {name: value for name, value in described.items() if str(FUNCTION) not in str(value)}


def _to_json(value: Any) -> Json:
    if isinstance(value, Mixture):
        return {"mixture": [[_to_json(key), share] for key, share in value.shares.items()]}
    if isinstance(value, Geometric):
        return {"geometric": value.gamma}
    if isinstance(value, Priority):
        return {"priority": [value.alpha, value.beta, value.eps]}
    if callable(value):
        names = [name for name, strategy in STRATEGIES.items() if strategy is value]
        return {"strategy": names[0]} if names else FUNCTION
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def option_from_json(value: Json) -> Any:
    """Return the option that `options_to_json` converted to ``value``."""
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    makers: dict[str, Any] = {
        "mixture": lambda shares: Mixture({option_from_json(key): share for key, share in shares}),
        "geometric": Geometric,
        "priority": lambda numbers: Priority(*numbers),
        "strategy": STRATEGIES.__getitem__,
    }
    return makers[kind](content)
