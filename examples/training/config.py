"""Config: all that a training depends on, from the command line, a file, or a program."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any

from examples.training.ranges import require_agent_options, require_number
from her_wrappers.arguments import require_count, require_keys

COUNTS = {
    "num_envs": 1,
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
"""Options that are whole numbers, and the least that they may be."""

KINDS = {
    "env": (str, "a text"),
    "algo": (str, "a text"),
    "strategy": (str, "a text"),
    "termination": ((str, NoneType), "a text"),
    "her": (bool, "true or false"),
    "prioritized": (bool, "true or false"),
    "clip_targets": (bool, "true or false"),
    "env_kwargs": (dict, "a table of names and values"),
    "agent": (dict, "a table of names and values"),
}
"""Other options: their types, in Python and in words."""


@dataclass(frozen=True)
class Config:
    """All that a training depends on: equal configs give equal trainings.

    Attributes:
        env: Id of a goal environment.
        algo: ``"dqn"``, ``"ddpg"``, ``"td3"`` or ``"sac"``.
        env_kwargs: Arguments of the environment.
        her: Whether to relabel.
        strategy: ``goal_selection_strategy`` of the buffer.
        k: Relabeled transitions for every original one.
        termination: ``"success"``, ``"keep"``, ``"never"`` or ``"recompute"``, as the buffer has it; None
            asks the environment's ``compute_terminated``, or keeps what was recorded where there is none.
        prioritized: Whether transitions with larger errors are drawn more often.
        num_envs: Environments that are stepped together.
        steps: Steps of all environments together.
        seed: Seeds environments, buffer and agent.
        gamma: Discount of a step.
        n_steps: Most steps whose rewards are added up in a transition.
        clip_targets: Whether the agent clips its targets to the returns of rewards from -1 to 0.
        updates_per_step: Updates of the agent for each step of an environment.
        batch_size: Transitions of an update.
        buffer_size: Transitions that the buffer holds; never more than ``steps``.
        learning_starts: Steps before the first update.
        steps_per_epoch: Steps between evaluations.
        evaluation_episodes: Episodes of an evaluation.
        save_every: Epochs between saves of all that resuming needs.
        history_every: Epochs between checkpoints that are kept; 0 keeps none.
        info_keys: Entries of the infos that ``compute_reward`` needs.
        agent: More arguments of the agent.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option has a value that it cannot have.
    """

    env: str
    algo: str
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    her: bool = True
    strategy: str = "future"
    k: int = 4
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

    def __post_init__(self) -> None:
        for name, (kind, words) in KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kind):  # type: ignore[arg-type] # types and tuples of types
                raise TypeError(f"{name} must be {words}, got {value!r}")
        for name, least in COUNTS.items():
            require_count(name, getattr(self, name), at_least=least)
        if self.learning_starts >= self.steps:
            raise ValueError(
                f"learning_starts must be below steps, got {self.learning_starts} and {self.steps}: nothing "
                "would be learned; train for more steps, or set learning_starts in the file of --config"
            )
        if self.seed >= 2**63:
            raise ValueError(f"seed must be below 2**63, got {self.seed}")
        for name in ("gamma", "updates_per_step"):
            require_number(name, getattr(self, name))
        require_agent_options(self.agent)
        object.__setattr__(self, "info_keys", require_keys("info_keys", self.info_keys))

    def as_dict(self) -> dict[str, Any]:
        """Return the options as plain values, for a file."""
        return asdict(self)


def make_config(*sources: Mapping[str, Any]) -> Config:
    """Make a config of options by name; later sources win over earlier ones.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: There is no such option, ``env`` or ``algo`` is missing, or a value cannot be.
    """
    options = {name: value for source in sources for name, value in source.items()}
    known = [each.name for each in fields(Config)]
    for name in options:
        if name not in known:
            raise ValueError(f"unknown option {name!r}; choose from {', '.join(known)}")
    for name in ("env", "algo"):
        if name not in options:
            raise ValueError(
                f"expected {name}, got none; pass --{name} or write it into the file of --config"
            )
    return Config(**options)


def read_options(path: Path) -> dict[str, Any]:
    """Read options from a TOML or JSON file; nothing in it is executed.

    Raises:
        ValueError: There is no such file, or it is neither.
    """
    readers = {".toml": tomllib.loads, ".json": json.loads}
    if path.suffix not in readers:
        raise ValueError(f"expected a file that ends in .toml or .json, got {path}")
    try:
        options = readers[path.suffix](path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    if not isinstance(options, dict):
        raise ValueError(f"{path} must hold options by name, got {options!r}")  # noqa: TRY004 - a file's content
    return options
