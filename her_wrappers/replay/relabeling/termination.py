"""Termination after relabeling: whether a step would have ended the episode under its new goal.

An environment that ends on success ends somewhere else when the goal is another. Keeping the recorded flag
makes a relabeled success bootstrap beyond its end: the error most often reported of HER buffers
(Stable-Baselines3 issue 627, rlkit issue 96). Reasons to end that are not the goal's, such as a crash, hold
under every goal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from her_wrappers.goal_interface import batched_terminated
from her_wrappers.replay.relabeling.termination_rules import Keep, KeepByDefault, Never, Recompute, Success

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.relabeling.termination_rules import Termination

TerminationMode = Literal["recompute", "success", "keep", "never"]


def make_termination(
    choice: TerminationMode | GoalFunction | None,
    compute_terminated: GoalFunction | None,
    goal_space: spaces.Space[Any],
) -> Termination:
    """Make the rule that a buffer's ``termination=`` names.

    Args:
        choice: A mode, a function used like ``compute_terminated``, or None for the default: ``"recompute"``
            where there is a ``compute_terminated``, else ``"keep"``.
        compute_terminated: The environment's function, or None.
        goal_space: Space of one goal.

    Raises:
        ValueError: There is no such mode, or no function to recompute with.
    """
    if choice is None or choice == "recompute" or callable(choice):
        function = choice if callable(choice) else compute_terminated
        batched = batched_terminated(function, goal_space)
        if batched is not None:
            return Recompute(batched)
    return named_termination("recompute" if callable(choice) else choice)


def named_termination(choice: TerminationMode | None) -> Termination:
    """Make a rule that asks no function: None is for nobody having chosen one.

    Raises:
        ValueError: There is no such mode, or it is one that needs a function.
    """
    if choice == "recompute":
        raise ValueError(
            'termination="recompute" needs compute_terminated(achieved_goal, desired_goal, info); '
            "define it on the environment or pass such a function as termination="
        )
    if choice is None:
        return KeepByDefault()
    rules: dict[str, Callable[[], Termination]] = {"success": Success, "keep": Keep, "never": Never}
    if not isinstance(choice, str) or choice not in rules:
        modes = ", ".join(map(repr, get_args(TerminationMode)))
        raise ValueError(f"unknown termination {choice!r}; choose from {modes}, or pass a function")
    return rules[choice]()
