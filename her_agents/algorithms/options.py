"""Options of the agents, one class for each algorithm, and their validation. Does not import torch."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

from her_wrappers.goals.environments import import_callable
from her_wrappers.support.arguments import require_count, require_flag, require_number

KINDS: dict[str, Any] = {
    "str": str,
    "str | None": str | None,
    "str | dict[str, float]": str | dict,
    "dict[str, Any]": dict,
}
"""Types that a field of options accepts, by the text of its annotation."""

UNITS = {"usual": (16, 8192)}
"""Metadata of the field ``hidden``: the smallest and the largest usual number of units in a layer."""


def ranged(default: Any, interval: str, usual: tuple[float, float] | None = None) -> Any:
    """Return a dataclass field for a float in ``interval``, such as ``"[0, 1]"`` (see `require_number`).

    ``usual`` has the smallest and the largest usual value; `her doctor` reports other values.
    """
    return field(default=default, metadata={"interval": interval, "usual": usual})


def count(default: Any, *, at_least: int = 0, usual: tuple[float, float] | None = None) -> Any:
    """Return a dataclass field for an integer of at least ``at_least``; ``usual`` is as in `ranged`."""
    return field(default=default, metadata={"at_least": at_least, "usual": usual})


def require_values(options: Any) -> None:
    """Check all fields of a dataclass; in fields of type int, replace floats such as 1e6 by integers.

    An integer must be at least ``at_least`` of `count`, or 1 in a field without it.
    """
    for option in fields(options):
        name, value = option.name, getattr(options, option.name)
        if value is None and option.default is None:
            continue
        if "interval" in option.metadata:
            require_number(name, value, option.metadata["interval"])
        elif option.type in {"int", "int | None"}:
            if isinstance(value, float) and value.is_integer():  # 1e6
                value = int(value)
                object.__setattr__(options, name, value)
            require_count(name, value, at_least=option.metadata.get("at_least", 1))
        elif option.type == "bool":
            require_flag(name, value)
        elif (kind := KINDS.get(str(option.type))) and not isinstance(value, kind):
            raise TypeError(f"{name} must be of type {option.type}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """Options of all agents.

    Raises:
        TypeError: A flag is not a bool.
        ValueError: A number is out of range, or ``hidden`` is not a list of positive integers.
    """

    hidden: tuple[int, ...] = field(default=(64, 64, 64), metadata=UNITS)
    """Units of each hidden layer."""
    layer_norm: bool = False
    """Whether to use layer normalization (arXiv 1607.06450) before the activation of each hidden layer."""
    learning_rate: float = ranged(1e-3, "(0, inf)", (3e-5, 0.01))
    """Step size of each Adam optimizer."""
    tau: float = ranged(0.05, "(0, 1]", (5e-4, 1))
    """Weight of the online parameters in the Polyak update of the target networks."""
    target_update_interval: int = count(1, at_least=1, usual=(1, 10_000))
    """Number of updates from one Polyak update of the target networks to the next."""
    random_shift: int = count(0, usual=(0, 12))
    """Largest random shift of the images of a batch in pixels, such as 4 for images of 84 x 84 pixels
    (arXiv 2004.13649)."""

    def __post_init__(self) -> None:
        if not isinstance(self.hidden, list | tuple):
            raise ValueError(f"'hidden' must be a list of layer sizes, such as [64, 64], got {self.hidden!r}")  # noqa: TRY004 - as its entries
        for units in self.hidden:
            require_count("each entry of hidden", units, at_least=1)
        object.__setattr__(self, "hidden", tuple(self.hidden))
        require_values(self)


@dataclass(frozen=True, kw_only=True)
class DQNOptions(AgentOptions):
    """Options of `DQN`, in addition to the options of all agents (`AgentOptions`)."""

    hidden: tuple[int, ...] = field(default=(256,), metadata=UNITS)
    epsilon: float = ranged(0.2, "[0, 1]", (0, 0.9))
    """Probability of a uniformly random action while exploring."""
    bc_weight: float = ranged(0.0, "[0, inf)", (0, 100))
    """Weight of the large-margin loss of demonstrated actions (arXiv 1704.03732, section 4)."""
    margin: float = ranged(0.8, "(0, inf)", (0.01, 100))
    """Margin of the large-margin loss: how much the Q value of a demonstrated action should exceed the Q
    values of all other actions."""


@dataclass(frozen=True, kw_only=True)
class TD3Options(AgentOptions):
    """Options of `TD3`, in addition to the options of all agents (`AgentOptions`)."""

    action_l2: float = ranged(1.0, "[0, inf)", (0, 10))
    """Weight of the mean square of the actions, scaled to [-1, 1], in the actor's loss."""
    epsilon: float = ranged(0.3, "[0, 1]", (0, 0.9))
    """Probability of a uniformly random action while exploring."""
    noise: float = ranged(0.2, "[0, inf)", (0, 1))
    """Standard deviation of the Gaussian exploration noise, for actions scaled to [-1, 1]."""
    n_critics: int = count(2, at_least=1, usual=(1, 20))
    """Number of critics; targets use their minimum."""
    target_noise: float = ranged(0.2, "[0, inf)", (0, 1))
    """Standard deviation of the noise on the next actions in targets, for actions scaled to [-1, 1]."""
    target_noise_clip: float = ranged(0.5, "[0, inf)", (0, 2))
    """Largest absolute value of the noise on the next actions in targets."""
    bc_weight: float = ranged(0.0, "[0, inf)", (0, 100))
    """Weight, in the actor's loss, of the mean squared difference to demonstrated actions that have a higher
    Q value than the action of the actor (arXiv 1709.10089, IV-B and IV-C)."""
    policy_delay: int = count(2, at_least=1, usual=(1, 20))
    """Number of updates of the critics for each update of the actor. target_update_interval counts updates of
    the actor."""


@dataclass(frozen=True, kw_only=True)
class DDPGOptions(TD3Options):
    """Options of `DDPG`: as for `TD3`, but by default one critic, no target noise, and no actor delay."""

    n_critics: int = count(1, at_least=1, usual=(1, 20))
    target_noise: float = ranged(0.0, "[0, inf)", (0, 1))
    policy_delay: int = count(1, at_least=1, usual=(1, 20))


@dataclass(frozen=True, kw_only=True)
class SACOptions(AgentOptions):
    """Options of `SAC`, in addition to the options of all agents (`AgentOptions`)."""

    temperature: float = ranged(0.1, "(0, inf)", (1e-3, 10))
    """Initial temperature: the weight of the entropy in the objective of the actor."""
    learn_temperature: bool = True
    """Whether the temperature is learned; otherwise it is constant."""
    target_entropy: float | None = ranged(None, "(-inf, inf)", (-1000, 10))
    """Target of the mean entropy if the temperature is learned; by default minus the length of an action
    vector."""
    n_critics: int = count(2, at_least=1, usual=(1, 20))
    """Number of critics."""
    policy_delay: int = count(1, at_least=1, usual=(1, 20))
    """Number of updates of the critics for each update of the actor and of the temperature."""
    bc_weight: float = ranged(0.0, "[0, inf)", (0, 100))
    """Weight, in the actor's loss, of the mean squared difference to demonstrated actions that have a higher
    Q value than the action of the actor (arXiv 1709.10089, IV-B and IV-C)."""


@dataclass(frozen=True, kw_only=True)
class TQCOptions(SACOptions):
    """Options of `TQC`, in addition to the options of `SAC`; names and defaults are as in sb3-contrib."""

    n_quantiles: int = count(25, at_least=1, usual=(5, 200))
    """Number of quantiles that each critic estimates."""
    top_quantiles_to_drop_per_net: int = count(2, usual=(0, 20))
    """Number of the largest quantiles, per critic, that targets leave out; less than ``n_quantiles``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_quantiles_to_drop_per_net >= self.n_quantiles:
            raise ValueError(
                f"top_quantiles_to_drop_per_net must be below n_quantiles={self.n_quantiles}, "
                f"got {self.top_quantiles_to_drop_per_net}"
            )


@dataclass(frozen=True, kw_only=True)
class IQLOptions(AgentOptions):
    """Options of `IQL`, in addition to the options of all agents (`AgentOptions`)."""

    hidden: tuple[int, ...] = field(default=(64, 64), metadata=UNITS)
    tau: float = ranged(0.01, "(0, 1]", (5e-4, 1))
    expectile: float = ranged(0.9, "[0.5, 1)", (0.5, 0.99))
    """The value of a state is this expectile of the Q values of recorded actions. Near 1, the value is close
    to the Q value of the best recorded action."""
    temperature: float = ranged(10.0, "(0, inf)", (0.1, 100))
    """Factor of the advantage in exp(temperature * advantage), the weight of an action in the imitation loss.
    With a larger factor, the actor imitates mainly actions with high Q values."""


AGENT_OPTIONS: dict[str, type[AgentOptions]] = {
    each.__name__.removesuffix("Options").lower(): each
    for each in (DQNOptions, DDPGOptions, TD3Options, SACOptions, TQCOptions, IQLOptions)
}
"""Class of the options of each algorithm, by name."""


def options_type(algo: str) -> type[AgentOptions]:
    """Return the class of an algorithm's options; for an agent ``module:Class``, import its module first."""
    if ":" in algo:
        found = import_callable(algo, "algo", "module:Class or path/to/file.py:Class")
        if isinstance(known := getattr(found, "options_type", None), type):
            return known
        raise ValueError(
            f"{algo} has no options_type; the class must inherit from her_agents.Agent, and set "
            "options_type to the class of its options, such as SACOptions"
        )
    if algo not in AGENT_OPTIONS:
        names = ", ".join(map(repr, AGENT_OPTIONS))
        raise ValueError(f"unknown algo {algo!r}; choose from {names}, or pass path/to/file.py:Class")
    return AGENT_OPTIONS[algo]


def agent_options(algo: str, options: Mapping[str, Any]) -> AgentOptions:
    """Return the validated options of an algorithm; missing options get their defaults."""
    kind = options_type(algo)
    known = sorted(each.name for each in fields(kind))
    for name in options:
        if name not in known:
            raise ValueError(f"unknown option {name!r} of {algo}; choose from {', '.join(map(repr, known))}")
    return kind(**options)


def option_meanings(options: type[AgentOptions]) -> dict[str, str]:
    """Return the docstring below each field of a class of options, by name; "" if a field has none."""
    found = {each.name: "" for each in fields(options)}
    for owner in reversed(options.__mro__[:-1]):
        with suppress(OSError, TypeError):  # a class without a source file
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
            for each, text in pairwise(getattr(definition, "body", [])):
                match each, text:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(meaning))):
                        found[name] = " ".join(meaning.split())
    return found
