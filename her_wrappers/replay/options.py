"""Options of a buffer: all arguments except spaces, goal functions, seed and device; also as JSON.

Functions are not saved. If an option is a user's function, its name is saved, and `load` needs the function.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from her_wrappers.arguments import require_count, require_flag, require_gamma, require_keys
from her_wrappers.replay.goal_sampler import ORIGINAL, GoalMixture, Mixture
from her_wrappers.replay.goal_selection import STRATEGIES, Geometric
from her_wrappers.replay.prioritized import Priority, require_priority
from her_wrappers.replay.relabeling import Relabeler
from her_wrappers.replay.rewards import RewardFunction
from her_wrappers.replay.terminations import require_mode, termination_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gymnasium import spaces

    from her_wrappers.files import Json
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.goal_sampler import GoalSelection
    from her_wrappers.replay.rewards import BatchFunction
    from her_wrappers.replay.terminations import TerminationMode

InfoFormat = Literal["list", "columns"]

FUNCTIONS = ("compute_reward", "reward_fn", "compute_terminated")
"""Arguments of a buffer that compute rewards or terminations."""

SHARES = ("n_sampled_goal", "her_ratio")
"""Options that give the relabeled share."""

FORMER_NAME = "skip_trivial", "resample_achieved_goals"
"""Name of an option in version 0.1 and in its files, and its name now."""

SAMPLING = (*SHARES, "goal_selection_strategy", "resample_achieved_goals", "prioritized")
"""Options on which the sampled indices depend."""


MAX_SIZE = 2**62
"""Largest ``buffer_size``: serial numbers of transitions are int64."""


@dataclass(frozen=True)
class FunctionName:
    """Placeholder for a user's function in loaded options: its name, callable so that validation passes."""

    name: str

    def __call__(self, *_: Any) -> Any:
        """Raise ValueError; this is never called, since `require_no_names` raises an error before."""
        raise ValueError(
            f"the function {self.name!r} of the saved buffer is not in the file; pass it to load"
        )


@dataclass(frozen=True)
class Options:
    """The options of `HindsightReplayBuffer`, whose docstring describes them.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: A number is out of its range, the relabeled share is given twice, or
            ``goal_selection_strategy``, ``termination`` or ``info_format`` is unknown.
    """

    buffer_size: int
    n_sampled_goal: int | None
    her_ratio: float | None
    goal_selection_strategy: GoalSelection
    termination: TerminationMode | GoalFunction | None
    n_steps: int
    gamma: float
    resample_achieved_goals: bool
    info_keys: Sequence[str]
    info_format: InfoFormat
    prioritized: Priority | None

    def __post_init__(self) -> None:
        checked = {
            "buffer_size": require_count("buffer_size", self.buffer_size, at_least=1),
            "n_steps": require_count("n_steps", self.n_steps, at_least=1),
            "gamma": require_gamma(self.gamma),
            "resample_achieved_goals": require_flag("resample_achieved_goals", self.resample_achieved_goals),
            "info_keys": require_keys("info_keys", self.info_keys),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.buffer_size > MAX_SIZE:
            raise ValueError(f"buffer_size must be at most {MAX_SIZE}, got {self.buffer_size}")
        self.goal_mixture()
        require_mode(self.termination)
        if self.info_format not in get_args(InfoFormat):
            raise ValueError(f"unknown info_format {self.info_format!r}; choose from 'list', 'columns'")
        require_priority(self.prioritized)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Options:
        """Return the options among all arguments of a buffer."""
        return cls(**{field.name: arguments[field.name] for field in fields(cls)})

    @classmethod
    def from_json(cls, saved: Json) -> Options:
        """Return saved options, with a `FunctionName` for each of the user's functions.

        Raises:
            TypeError: An option is missing, or has a wrong type.
            ValueError: An option has a wrong value.
        """
        names = dict([FORMER_NAME])
        return cls(**{names.get(key, key): _from_json(value) for key, value in saved.items()})

    def to_json(self) -> Json:
        """Return the options as JSON, with the names of the user's functions."""
        return {key: _to_json(value) for key, value in vars(self).items()}

    def goal_mixture(self) -> GoalMixture:
        """Return the strategies and their shares of a batch.

        Raises:
            TypeError: ``goal_selection_strategy`` is not a name, a function or a `Mixture`.
            ValueError: The strategy is unknown, or the share is given twice or out of its range.
        """
        return GoalMixture(self.goal_selection_strategy, self.n_sampled_goal, self.her_ratio)

    def make_relabeler(
        self,
        observation_space: spaces.Dict,
        compute_reward: GoalFunction | None,
        reward_fn: BatchFunction | None,
        compute_terminated: GoalFunction | None,
    ) -> Relabeler | None:
        """Return the relabeler of a buffer with these functions; None if nothing is relabeled.

        Raises:
            TypeError: A function is not callable.
            ValueError: A function is missing or given twice, or the termination rule is unknown.
        """
        reward, relabels = RewardFunction.of(compute_reward, reward_fn), self.goal_mixture().relabels
        if reward is None and relabels:
            raise ValueError(
                "relabeling needs compute_reward(achieved_goal, desired_goal, info); "
                "pass compute_reward= or reward_fn=, or n_sampled_goal=0 for plain replay"
            )
        rule = termination_rule(self.termination, compute_terminated, observation_space["achieved_goal"])
        if reward is None or not relabels:
            return None
        return Relabeler(reward, rule, tuple(self.info_keys), self.info_format, self.gamma)

    def same_sampling(self, other: Options) -> bool:
        """Whether both options lead to the same sampled indices, if functions of the same name are equal."""
        return all(_to_json(getattr(self, key)) == _to_json(getattr(other, key)) for key in SAMPLING)

    def merged_with(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a buffer: these saved options, replaced by the given arguments.

        Raises:
            TypeError: An element of ``info_keys`` is not a string.
            ValueError: ``info_keys`` differ from the saved ones, or the saved strategy was a user's function
                and no strategy is given.
        """
        info_keys = require_keys("info_keys", given.get("info_keys", self.info_keys))
        if info_keys != self.info_keys:
            raise ValueError(
                f"info_keys must be those of the saved buffer, {list(self.info_keys)}, whose infos are in "
                f"the file, got {list(info_keys)}; leave them out"
            )
        saved, strategy = self, given.get("goal_selection_strategy")
        gives_share = isinstance(strategy, Mixture) and ORIGINAL in strategy.shares
        if gives_share or any(given.get(name) is not None for name in SHARES):
            saved = replace(self, n_sampled_goal=None, her_ratio=None)
        merged: dict[str, Any] = {**vars(saved), **given}
        require_no_names("goal_selection_strategy", merged["goal_selection_strategy"])
        return merged


def relabels(
    goal_selection_strategy: GoalSelection = "future",
    n_sampled_goal: int | None = None,
    her_ratio: float | None = None,
    **_: Any,
) -> bool:
    """Whether a buffer with these arguments relabels anything.

    Raises:
        TypeError: The strategy has a wrong type, see `Options.goal_mixture`.
        ValueError: The strategy is unknown or a share is wrong, see `Options.goal_mixture`.
    """
    return GoalMixture(goal_selection_strategy, n_sampled_goal, her_ratio).relabels


def require_no_names(argument: str, value: Any) -> None:
    """Check that an option has no function of which only the name was saved.

    Raises:
        ValueError: ``value`` is or contains a `FunctionName`.
    """
    values = [value, *(value.shares if isinstance(value, Mixture) else ())]
    names = [each.name for each in values if isinstance(each, FunctionName)]
    if names:
        raise ValueError(
            f"{argument} of the saved buffer is or has the user's function {names[0]!r}, which is not in the "
            f"file; pass {argument}= to load"
        )


def _to_json(value: Any) -> Json:
    if isinstance(value, Mixture):
        return {"mixture": [[_to_json(key), share] for key, share in value.shares.items()]}
    if isinstance(value, Geometric):
        return {"geometric": value.gamma}
    if isinstance(value, Priority):
        return {"priority": [value.alpha, value.beta, value.eps]}
    if callable(value):
        return _function_to_json(value)
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def _function_to_json(function: Any) -> Json:
    if isinstance(function, FunctionName):
        return {"function": function.name}
    for name, strategy in STRATEGIES.items():
        if function is strategy:
            return {"strategy": name}
    return {"function": getattr(function, "__name__", type(function).__name__)}


def _from_json(value: Json) -> Any:
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
        return FunctionName(str(content))
    raise ValueError(f"expected mixture, geometric, priority, strategy or function, got {kind!r}")
