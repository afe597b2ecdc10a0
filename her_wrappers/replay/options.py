"""BufferOptions: the validated arguments of a buffer, and their conversion to and from JSON."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from her_wrappers.data import Json
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.recording.dataset import Dataset, EpisodeErrors, episodes_of, numbered, require_no_path
from her_wrappers.recording.episode import Episode
from her_wrappers.replay.goal_selection import (
    DEFAULT_SAMPLED_GOALS,
    ORIGINAL,
    STRATEGIES,
    Geometric,
    GoalMixture,
    GoalSelection,
    Mixture,
)
from her_wrappers.replay.priorities import Priority
from her_wrappers.replay.relabeling import BatchFunction, TerminationMode, require_termination
from her_wrappers.support.arguments import require_count, require_gamma, require_keys, require_number

if TYPE_CHECKING:
    import torch

# Options that compute rewards or terminations
FUNCTIONS = ("compute_reward", "reward_fn", "compute_terminated")
# Options on which the sampled steps and goals depend
SAMPLING = ("n_sampled_goal", "goal_selection_strategy", "prioritized")

# Options that are saved; the share of the demonstrations is saved too
SAVED = (
    "buffer_size", "n_steps", "gamma", "info_keys", "n_sampled_goal", "goal_selection_strategy",
    "termination", "prioritized",
)  # fmt: skip
# Removed options, each with its former default, and the advice for a user who gives another value
REMOVED: dict[str, tuple[Json, str]] = {
    "her_ratio": (None, "pass n_sampled_goal=, or a Mixture that has a share of 'original'"),
    "resample_achieved_goals": (False, "for fewer trivial goals, pass a Mixture with 'random' or 'desired'"),
    "info_format": ("list", "leave it out: functions get a list of dicts, one for each row"),
    "tensor_functions": (False, "leave it out: functions get arrays, and device= copies the batches"),
}


@dataclass(frozen=True)
class Demonstrations:
    """Episodes of an expert or another policy, and their share of each batch.

    Attributes:
        episodes: An `EpisodeArchive`, a ``minari.MinariDataset``, `Episodes` or an iterable of `Episode`. A
            buffer that is made with these demonstrations copies the episodes.
        share: Share of demonstrations among the rows of each batch, in (0, 1). If ``share`` times the
            batch size is not an integer, the product is rounded at random, so that its mean is exact.

    Raises:
        TypeError: ``episodes`` is a single `Episode` or a path.
        ValueError: ``share`` is not a number in (0, 1).

    Example:
        ``HindsightReplayBuffer.for_env(env, demonstrations=Demonstrations(archive, share=0.25))``
    """

    episodes: Iterable[Episode] | Dataset
    share: float = 0.25

    def __post_init__(self) -> None:
        share = require_number("share of Demonstrations", self.share, "(0, 1)")
        object.__setattr__(self, "share", share)  # a float, as in a saved file
        require_no_path("Demonstrations()", self.episodes)
        if isinstance(self.episodes, Episode):
            raise TypeError("Demonstrations() takes an iterable of episodes, got one Episode; pass [episode]")

    def read(self) -> list[Episode]:
        """Return all episodes; raise ValueError if the source is empty."""
        source: Any = self.episodes
        if isinstance(source, Dataset):
            errors = EpisodeErrors("raise")
            source = errors.counted(episodes_of(source, errors))
        listed = [episode for _, episode in numbered(source)]
        if not listed:
            raise ValueError("Demonstrations must contain at least one episode, got none")
        return listed


def functions_missing(*_: Any) -> NoReturn:
    """Raise ValueError; used in place of each function that is missing after a buffer was loaded."""
    raise ValueError(
        "relabeled transitions need a reward function, but the buffer was loaded without functions; pass "
        "env=, compute_reward= or reward_fn= to load()"
    )


@dataclass(frozen=True)
class BufferOptions:
    """The arguments of `HindsightReplayBuffer` except the spaces, validated and with resolved defaults."""

    buffer_size: int = 1_000_000
    compute_reward: GoalFunction | None = None
    reward_fn: BatchFunction | None = None
    compute_terminated: GoalFunction | None = None
    n_sampled_goal: int | None = None  # None only if the strategy is a `Mixture` with a share of "original"
    goal_selection_strategy: GoalSelection = "future"
    termination: TerminationMode | GoalFunction | None = None  # None: see `resolve_termination`
    n_steps: int = 1
    gamma: float = 0.99
    info_keys: Sequence[str] = ()  # a tuple, once validated
    prioritized: Priority | None = None
    seed: int | None = None
    device: str | torch.device | None = None
    demonstrations: Demonstrations | None = None
    mixture: GoalMixture = field(init=False, repr=False)  # of the strategies; the original rows are the rest

    def __post_init__(self) -> None:
        strategy = self.goal_selection_strategy
        if strategy is functions_missing:  # steps that are not relabeled can still be sampled
            strategy = "future"
        resolved = {
            "buffer_size": require_count("buffer_size", self.buffer_size, at_least=1),
            "n_steps": require_count("n_steps", self.n_steps, at_least=1),
            "gamma": require_gamma(self.gamma),
            "info_keys": require_keys("info_keys", self.info_keys),
            "mixture": GoalMixture(strategy, self.n_sampled_goal),
        }
        if self.n_sampled_goal is None and not _has_share(strategy):
            resolved["n_sampled_goal"] = DEFAULT_SAMPLED_GOALS
        self.__dict__.update(resolved)  # the class is frozen
        require_termination(self.termination)
        if not isinstance(self.prioritized, Priority | None):
            got = f"got {self.prioritized!r}; pass Priority()"
            raise TypeError(f"prioritized must be a Priority or None, {got}")
        if not isinstance(self.demonstrations, Demonstrations | None):
            got = type(self.demonstrations).__name__
            raise TypeError(f"demonstrations must be None or Demonstrations(episodes), got {got}")
        try:
            np.random.default_rng(self.seed)
        except (TypeError, ValueError) as error:
            raise ValueError(f"seed must be a non-negative integer or None, got {self.seed!r}") from error
        if self.compute_reward is not None and self.reward_fn is not None:
            raise ValueError("compute_reward and reward_fn must not both be given; pass only one of them")
        if self.mixture.components and self.compute_reward is None and self.reward_fn is None:
            raise ValueError(
                "relabeling needs compute_reward(achieved_goal, desired_goal, info), got None; pass "
                "compute_reward= or reward_fn=, or turn relabeling off with n_sampled_goal=0"
            )

    @property
    def can_relabel(self) -> bool:
        """Whether rows are relabeled, and the functions for this are known."""
        return bool(self.mixture.components) and self.compute_reward is not functions_missing


def _has_share(strategy: Any) -> bool:
    """Whether a strategy is a `Mixture` that sets the share of relabeled rows."""
    return isinstance(strategy, Mixture) and ORIGINAL in strategy.shares


def relabels(options: Mapping[str, Any]) -> bool:
    """Return whether a buffer with these arguments relabels rows; raise an error if they are wrong."""
    strategy = options.get("goal_selection_strategy", "future")
    return bool(GoalMixture(strategy, options.get("n_sampled_goal")).components)


def merged_options(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the saved options updated with ``given``; raise ValueError if ``info_keys`` differ."""
    info_keys = require_keys("info_keys", given.get("info_keys", saved["info_keys"]))
    if list(info_keys) != saved["info_keys"]:
        raise ValueError(
            f"info_keys must be {saved['info_keys']}, as in the saved buffer, got {list(info_keys)}; "
            "leave info_keys= out"
        )
    merged = {**saved, **given}
    if _has_share(given.get("goal_selection_strategy")):
        merged["n_sampled_goal"] = given.get("n_sampled_goal")  # instead of the saved share
    return merged


def without_removed(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Json]:
    """Return ``saved`` without removed options; raise ValueError if one of them was not at its default."""
    options, strategy = dict(saved), given.get("goal_selection_strategy")
    has_share = given.get("n_sampled_goal") is not None or _has_share(strategy)
    for name, (default, advice) in REMOVED.items():
        value = options.pop(name, default)
        if value != default and not (name == "her_ratio" and has_share):
            raise ValueError(f"the buffer was saved with {name}={value!r}, which was removed; {advice}")
    return options


def options_to_json(options: BufferOptions) -> dict[str, Json]:
    """Return the saved options as JSON, leaving out each that is or contains a function of the user."""
    described = {}
    for name in SAVED:
        with contextlib.suppress(TypeError):
            described[name] = _to_json(getattr(options, name))
    return described


def _to_json(value: Any) -> Json:
    """Return an option as JSON; raise TypeError if it is or contains a function of the user."""
    if isinstance(value, Mixture):
        return {"mixture": [[_to_json(key), share] for key, share in value.shares.items()]}
    if isinstance(value, Geometric):
        return {"geometric": value.gamma}
    if isinstance(value, Priority):
        return {"priority": [value.alpha, value.beta, value.eps]}
    if callable(value):
        names = [name for name, strategy in STRATEGIES.items() if strategy is value]
        if not names:
            raise TypeError("a user's function cannot be saved")
        return {"strategy": names[0]}
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
