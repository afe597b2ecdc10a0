"""Config: all options of a training, from the command line, a file, or a program."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any

from her_wrappers.arguments import require_count, require_keys
from her_wrappers.replay.goal_selection import DEFAULT_SAMPLED_GOALS, ORIGINAL, GoalMixture, Mixture

COUNTS = {
    "num_envs": 1,
    "workers": 0,
    "steps": 1,
    "seed": 0,
    "k": 1,
    "n_steps": 1,
    "batch_size": 1,
    "buffer_size": 1,
    "learning_starts": 0,
    "steps_per_epoch": 1,
    "evaluation_episodes": 1,
    "save_every": 1,
    "history_every": 0,
}
"""Lower bounds of the options that are integers."""

AGENT_COUNTS = {
    "policy_delay": 1,
    "target_update_interval": 1,
    "n_critics": 1,
    "n_quantiles": 1,
    "top_quantiles_to_drop_per_net": 0,
}
"""Lower bounds of arguments of agents that are integers."""

AGENT_FLAGS = {"layer_norm", "learn_temperature"}
"""Arguments of agents that are true or false."""

TYPES = {
    "env": (str, "a string"),
    "algo": (str, "a string"),
    "strategy": ((str, dict), "a string or a table of shares"),
    "termination": ((str, NoneType), "a string or None"),
    "her": (bool, "true or false"),
    "prioritized": (bool, "true or false"),
    "fresh_envs": (bool, "true or false"),
    "linear_schedule": (bool, "true or false"),
    "clip_targets": (bool, "true or false"),
    "env_kwargs": (dict, "a table of names and values"),
    "agent": (dict, "a table of names and values"),
}
"""Types of the other options, with their names in messages."""

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
"""Ranges of the numbers in a config, including arguments of agents."""


@dataclass(frozen=True)
class Config:
    """All options of a training. On one machine, with the same packages, equal configs give equal agents.

    Attributes:
        env: The goal environment: an id, ``module:id``, ``module:Class``, ``module:function`` or
            ``path/to/file.py:Class``.
        algo: ``"dqn"``, ``"ddpg"``, ``"td3"``, ``"sac"`` or ``"tqc"``.
        env_kwargs: Arguments of the environment.
        her: Whether to relabel goals.
        strategy: ``goal_selection_strategy`` of the buffer: the name of a strategy, or a table of shares by
            name for a `Mixture`, such as ``{"future": 0.5, "desired": 0.3, "original": 0.2}``.
        k: Number of relabeled transitions for each original one; must be left out if ``strategy`` has a
            share of ``"original"``.
        termination: Terminations of relabeled transitions: ``"recompute"``, ``"success"``, ``"keep"`` or
            ``"never"``, as for the buffer, or ``module:function``, a function that is used like
            ``compute_terminated``. None uses the environment's ``compute_terminated``, or the recorded
            terminations if the environment does not define one.
        prioritized: Whether transitions with larger errors are sampled more often.
        num_envs: Number of environments, stepped together.
        workers: Number of workers that collect episodes, each with ``num_envs`` environments, while the agent
            learns; 0 collects in the process of the learner, between updates.
        fresh_envs: Whether workers make new environments for each round, for environments whose reset does
            not restore all of their state.
        steps: Steps of all environments together.
        seed: Seed of environments, buffer and agent.
        gamma: Discount per step.
        n_steps: Largest number of rewards in the return of a transition.
        clip_targets: Whether the agent clips its targets to the range of returns of rewards in [-1, 0].
        linear_schedule: Whether the learning rates decrease linearly, from their values in ``agent`` at the
            start to 0 after ``steps``; otherwise they are constant.
        updates_per_step: Updates of the agent for each step of an environment.
        batch_size: Transitions of an update.
        buffer_size: Capacity of the buffer in transitions; ``steps`` if that is less.
        learning_starts: Steps before the first update.
        steps_per_epoch: Steps between evaluations.
        evaluation_episodes: Episodes of an evaluation.
        save_every: Epochs between writes of ``latest.pt``, the checkpoint for resuming.
        history_every: Epochs between checkpoints that are never replaced; 0 for none.
        info_keys: Entries of the infos that ``compute_reward`` needs.
        agent: More arguments of the agent, by name.

    Raises:
        TypeError: An option has a wrong type.
        ValueError: An option is out of range.
    """

    env: str
    algo: str
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    her: bool = True
    strategy: str | dict[str, float] = "future"
    k: int = DEFAULT_SAMPLED_GOALS
    termination: str | None = None
    prioritized: bool = False
    num_envs: int = 16
    steps: int = 100_000
    seed: int = 0
    gamma: float = 0.98
    n_steps: int = 1
    clip_targets: bool = True
    updates_per_step: float = 0.25
    batch_size: int = 128
    buffer_size: int = 1_000_000
    learning_starts: int = 1_000
    steps_per_epoch: int = 4_000
    evaluation_episodes: int = 50
    save_every: int = 1
    history_every: int = 10
    info_keys: tuple[str, ...] = ()
    agent: dict[str, Any] = field(default_factory=dict)
    workers: int = 0
    fresh_envs: bool = False
    linear_schedule: bool = False

    def __post_init__(self) -> None:
        for name, (kind, words) in TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, kind):  # type: ignore[arg-type] # types and tuples of types
                raise TypeError(f"{name} must be {words}, got {value!r}")
        for name, minimum in COUNTS.items():
            require_count(name, getattr(self, name), at_least=minimum)
        if self.learning_starts >= self.steps:
            raise ValueError(
                f"learning_starts must be below steps={self.steps}, got {self.learning_starts}: the agent "
                "would not be updated; train for more steps, or set learning_starts in the file of --config"
            )
        if self.seed >= 2**63:
            raise ValueError(f"seed must be below 2**63, got {self.seed}")
        for name in ("gamma", "updates_per_step"):
            _require_number(name, getattr(self, name))
        if self.fresh_envs and not self.workers:
            raise ValueError("fresh_envs needs workers; set workers to 1 or more")
        _require_agent_options(self.agent)
        _require_strategy(self.strategy, self.k)
        object.__setattr__(self, "info_keys", require_keys("info_keys", self.info_keys))

    def goal_options(self) -> dict[str, Any]:
        """Return the arguments of the buffer that determine the new goals."""
        if not self.her:
            return {"n_sampled_goal": 0}
        k = None if _gives_relabeled_share(self.strategy) else self.k
        return {"goal_selection_strategy": _goal_selection(self.strategy), "n_sampled_goal": k}

    def as_dict(self) -> dict[str, Any]:
        """Return the options as plain values, for a file; later additions to the options only if used."""
        options = asdict(self)
        for name in ("workers", "fresh_envs", "linear_schedule"):
            if not options[name]:
                del options[name]  # so that files of trainings without this option stay equal
        return options


def make_config(*sources: Mapping[str, Any]) -> Config:
    """Make a config from options by name; later sources override earlier ones.

    The entries of ``agent`` and ``env_kwargs`` are overridden one by one. But a source with ``algo`` replaces
    the whole ``agent``, and a source with ``env`` the whole ``env_kwargs``, if it has such a table.

    Args:
        *sources: Values of the attributes of `Config`, by name.

    Raises:
        TypeError: An option has a wrong type.
        ValueError: An option is unknown or out of range, or ``env`` or ``algo`` is missing.
    """
    options: dict[str, Any] = {}
    for source in sources:
        tables = {
            name: {**options[name], **source[name]}
            for name, owner in (("agent", "algo"), ("env_kwargs", "env"))
            if owner not in source
            and isinstance(options.get(name), Mapping)
            and isinstance(source.get(name), Mapping)
        }
        options |= {**source, **tables}
    known = [each.name for each in fields(Config)]
    for name in options:
        if name not in known:
            raise ValueError(f"unknown option {name!r}; choose from {', '.join(map(repr, known))}")
    for name in ("env", "algo"):
        if name not in options:
            raise ValueError(
                f"expected {name}, got none; pass --{name} or write it into the file of --config"
            )
    return Config(**options)


def read_options(path: Path) -> dict[str, Any]:
    """Read options from a TOML or JSON file.

    Args:
        path: The file; its name ends with ``.toml`` or ``.json``.

    Returns:
        The values by name; `make_config` validates them.

    Raises:
        ValueError: The file cannot be read, or its content is not a table of names and values.
    """
    readers = {".toml": tomllib.loads, ".json": json.loads}
    if path.suffix not in readers:
        raise ValueError(f"expected a file with the suffix .toml or .json, got {path}")
    try:
        options = readers[path.suffix](path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    if not isinstance(options, dict):
        raise ValueError(f"{path} must contain options by name, got {options!r}")  # noqa: TRY004 - a file's content
    return options


def _require_number(name: str, value: object) -> None:
    """Raise ValueError unless a value is in the range of its option."""
    in_range, words = RULES[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and in_range(value)):  # type: ignore[arg-type] # is a number
        raise ValueError(f"{name} must {words}, got {value!r}")


def _goal_selection(strategy: str | dict[str, float]) -> str | Mixture:
    """Return a strategy as an argument of the buffer; the order of the shares has no effect."""
    return strategy if isinstance(strategy, str) else Mixture(dict(sorted(strategy.items())))


def _gives_relabeled_share(strategy: str | dict[str, float]) -> bool:
    return not isinstance(strategy, str) and ORIGINAL in strategy


def _require_strategy(strategy: str | dict[str, float], k: int) -> None:
    """Raise ValueError unless the strategies are known, their shares sum to 1, and ``k`` can be used."""
    try:
        GoalMixture(_goal_selection(strategy), None, None)
    except ValueError as error:
        raise ValueError(f"strategy: {error}") from error
    if _gives_relabeled_share(strategy) and k != DEFAULT_SAMPLED_GOALS:
        raise ValueError(f"k must be left out if strategy has a share of {ORIGINAL!r}, got {k}")


def _require_agent_options(options: Mapping[str, Any]) -> None:
    """Check the values of an agent's arguments; `make_agent` checks the names."""
    for name in options.keys() & RULES.keys():
        _require_number(name, options[name])
    for name in options.keys() & AGENT_COUNTS.keys():
        require_count(name, options[name], at_least=AGENT_COUNTS[name])
    for name in options.keys() & AGENT_FLAGS:
        if not isinstance(options[name], bool):
            raise TypeError(f"{name} must be true or false, got {options[name]!r}")
    hidden = options.get("hidden", [])
    if not isinstance(hidden, list | tuple):
        raise ValueError(f"hidden must be a list of integers, got {hidden!r}")  # noqa: TRY004 - as its entries
    for units in hidden:
        require_count("each entry of hidden", units, at_least=1)
