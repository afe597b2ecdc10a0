"""Options: how a buffer was asked to be, less spaces, functions of goals, and the seed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from her_wrappers.arguments import require_count, require_flag, require_gamma, require_keys
from her_wrappers.replay.goals.shares import Shares
from her_wrappers.replay.priorities.priority import Priority, require_priority

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.goals.shares import GoalSelection
    from her_wrappers.replay.relabeling.termination import TerminationMode
    from her_wrappers.replay.storage.infos import InfoFormat


@dataclass(frozen=True)
class Options:
    """Arguments of `HindsightReplayBuffer`, which tells of them; those that a file holds.

    Raises:
        TypeError: ``skip_trivial`` is no bool, ``info_keys`` no strings, or ``prioritized`` no `Priority`.
        ValueError: A number lies outside its range.
    """

    buffer_size: int
    n_sampled_goal: int | None
    her_ratio: float | None
    goal_selection_strategy: GoalSelection
    termination: TerminationMode | GoalFunction | None
    n_steps: int
    gamma: float
    skip_trivial: bool
    info_keys: Sequence[str]
    info_format: InfoFormat
    prioritized: Priority | None

    def __post_init__(self) -> None:
        checked = {
            "buffer_size": require_count("buffer_size", self.buffer_size, at_least=1),
            "n_steps": require_count("n_steps", self.n_steps, at_least=1),
            "gamma": require_gamma(self.gamma),
            "skip_trivial": require_flag("skip_trivial", self.skip_trivial),
            "info_keys": require_keys("info_keys", self.info_keys),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        require_priority(self.prioritized)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Options:
        """Pick the options out of all arguments of a buffer."""
        return cls(**{field.name: arguments[field.name] for field in fields(cls)})

    def shares(self) -> Shares:
        """Return which part of every batch gets its goals from where.

        Raises:
            TypeError: The choice is no strategy at all.
            ValueError: There is no such strategy, or the share is given twice or outside its range.
        """
        return Shares(self.goal_selection_strategy, self.n_sampled_goal, self.her_ratio)


def relabels(
    goal_selection_strategy: GoalSelection = "future",
    n_sampled_goal: int | None = None,
    her_ratio: float | None = None,
    **_: Any,
) -> bool:
    """Whether a buffer with these arguments, of which others are left out, relabels anything.

    Raises:
        TypeError: As `Options.shares`.
        ValueError: As `Options.shares`.
    """
    return Shares(goal_selection_strategy, n_sampled_goal, her_ratio).relabels
