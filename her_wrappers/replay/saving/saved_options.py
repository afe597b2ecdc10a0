"""Saved options: the arguments of a buffer as JSON and back. Functions are no data; they are given again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.arguments import require_keys
from her_wrappers.replay.goals.selection import STRATEGIES, Geometric
from her_wrappers.replay.goals.shares import ORIGINAL, Mixture
from her_wrappers.replay.options import Options, relabels
from her_wrappers.replay.priorities.priority import Priority
from her_wrappers.replay.relabeling.stand_ins import missing_reward

if TYPE_CHECKING:
    from collections.abc import Mapping

    from her_wrappers.files import Json

FUNCTIONS = ("compute_reward", "reward_fn", "compute_terminated")
"""Arguments that no file holds."""

SHARES = ("n_sampled_goal", "her_ratio")
"""Arguments that give the relabeled share."""

DRAWING = (*SHARES, "goal_selection_strategy", "skip_trivial", "prioritized")
"""Arguments that decide which batches are drawn."""


@dataclass(frozen=True)
class LostFunction:
    """Stands for a function that was an argument of a saved buffer.

    Attributes:
        name: Of the function.
    """

    name: str


def options_to_json(options: Options) -> Json:
    """Return the options of a buffer as JSON; of functions nothing but their names."""
    return {key: _to_json(value) for key, value in vars(options).items()}


def options_from_json(saved: Json) -> Options:
    """Return the options of a buffer, with a `LostFunction` for each function.

    Raises:
        TypeError: One is missing, or of a kind that it cannot be of.
        ValueError: One has a value that it cannot have.
    """
    return Options(**{key: _from_json(value) for key, value in saved.items()})


def merged_options(saved: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return saved options and arguments that win over them, together.

    Args:
        saved: The options.
        given: The arguments.

    Raises:
        TypeError: The keys of infos that are asked for are no strings.
        ValueError: Other infos are asked for than are in the file, or a strategy is lost.
    """
    info_keys = require_keys("info_keys", given.get("info_keys", saved.info_keys))
    if info_keys != saved.info_keys:
        raise ValueError(
            f"info_keys must be those of the saved buffer, {list(saved.info_keys)}, whose infos are in "
            f"the file, got {list(info_keys)}; leave them out"
        )
    strategy = given.get("goal_selection_strategy")
    is_share = isinstance(strategy, Mixture) and ORIGINAL in strategy.shares
    if is_share or any(given.get(name) is not None for name in SHARES):
        saved = replace(saved, n_sampled_goal=None, her_ratio=None)
    merged: dict[str, Any] = {**vars(saved), **given}
    _require_found("goal_selection_strategy", merged["goal_selection_strategy"])
    return merged


def with_functions(merged: Mapping[str, Any], *, has_env: bool, rule: str | None) -> dict[str, Any]:
    """Return arguments that a buffer can be made with, whether or not functions are among them.

    Args:
        merged: What `merged_options` returned.
        has_env: Whether there is an environment to take functions from.
        rule: Kind of the rule for terminations that the saved buffer had, if it had one.

    Raises:
        ValueError: The rule for terminations is a function that is lost.
    """
    ready = dict(merged)
    if not relabels(**merged):
        if isinstance(ready["termination"], LostFunction):
            ready["termination"] = None
    elif not has_env and all(merged.get(name) is None for name in FUNCTIONS):
        ready |= {"reward_fn": missing_reward, "termination": "never"}
    else:
        _require_found("termination", ready["termination"])
        # Where terminations were recomputed by default, they are not silently kept from now on.
        if ready["termination"] is None and rule == "recompute":
            ready["termination"] = "recompute"
    return ready


def draws_alike(options: Options, others: Options) -> bool:
    """Whether buffers with these options draw the same batches, as far as names of functions tell."""
    return all(_to_json(getattr(options, key)) == _to_json(getattr(others, key)) for key in DRAWING)


def _to_json(value: Any) -> Json:
    if isinstance(value, Mixture):
        return {"mixture": [[_to_json(key), share] for key, share in value.shares.items()]}
    if isinstance(value, Geometric):
        return {"geometric": value.gamma}
    if isinstance(value, Priority):
        return {"priority": [value.alpha, value.beta, value.eps]}
    if callable(value) or isinstance(value, LostFunction):
        return _function_to_json(value)
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def _function_to_json(function: Any) -> Json:
    if isinstance(function, LostFunction):
        return {"function": function.name}
    for name, strategy in STRATEGIES.items():
        if function is strategy:
            return {"strategy": name}
    return {"function": getattr(function, "__name__", type(function).__name__)}


def _from_json(value: Json) -> Any:
    """Read an argument.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind == "mixture":
        return Mixture({_from_json(key): share for key, share in content})
    if kind == "geometric":
        return Geometric(content)
    if kind == "priority":
        return Priority(*content)
    if kind == "strategy":
        return STRATEGIES[content]
    if kind == "function":
        return LostFunction(str(content))
    raise ValueError(f"{kind!r} is none of mixture, geometric, priority, strategy, function")


def _require_found(name: str, value: Any) -> None:
    """Refuse what no file holds.

    Raises:
        ValueError: It is, or has in it, a function that is lost.
    """
    parts = [value, *(value.shares if isinstance(value, Mixture) else ())]
    lost = [part.name for part in parts if isinstance(part, LostFunction)]
    if lost:
        raise ValueError(
            f"{name} of the saved buffer has a function of the user's own, {lost[0]!r}, which no file holds; "
            f"pass {name}= to load"
        )
