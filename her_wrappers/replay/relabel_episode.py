"""relabel_episode: relabeled copies of an episode's steps, for buffers that know nothing of goals.

This is how HER was first written down (Andrychowicz et al. 2017, algorithm 1,
https://arxiv.org/abs/1707.01495): when an episode ends, each of its steps is stored again with other goals.
`HindsightReplayBuffer` draws new goals at every sample instead, and stores nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.arguments import require_count, require_function, require_gamma
from her_wrappers.replay.batch import Batch, Provenance
from her_wrappers.replay.rewards import read_only, require_rewards
from her_wrappers.replay.shares import ORIGINAL, find_strategy
from her_wrappers.replay.termination import require_ends
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.recording.episode import Episode
    from her_wrappers.replay.goal_selection import Strategy
    from her_wrappers.trees import Tree


def relabel_episode(
    episode: Episode,
    strategy: str | Strategy,
    n_sampled_goal: int,
    compute_reward: GoalFunction,
    rng: np.random.Generator,
    *,
    compute_terminated: GoalFunction | None = None,
    gamma: float = 0.99,
) -> Batch:
    """Return ``n_sampled_goal`` relabeled copies of every step of an episode.

    Args:
        episode: An episode of a goal environment, T steps.
        strategy: Where the goals come from: ``"future"``, ``"final"`` (all copies of a step are alike then),
            ``"episode"``, ``"geometric"`` or `Geometric`, or a function ``(t, length, rng) -> s``.
        n_sampled_goal: Copies of every step, k.
        compute_reward: Rewards of a batch of goals; its infos are the episode's, as a list of dicts.
        rng: Source of all randomness.
        compute_terminated: Terminations of a batch of goals, such as
            ``GoalInterface.of(env).compute_terminated``. A last step that terminated though it says no
            for the recorded goal did so for another reason, and its copies do too. Without the function,
            copies terminate where the episode did.
        gamma: Discount factor, for ``discounts``.

    Returns:
        T k transitions, the copies of step 0 first; ``index`` is the step that each is a copy of, and
        ``goal_index`` the step that achieved its goal.

    Raises:
        TypeError: A function is none.
        ValueError: The episode has no goals, there is no such strategy within an episode, ``gamma`` is not in
            (0, 1], or a function answers wrongly.

    Example:
        >>> from her_wrappers import Episode
        >>> seen = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), np.arange(4.0)[:, None])
        >>> episode = Episode(seen, np.zeros(3), np.zeros(3), terminated=False, truncated=True)
        >>> reward = lambda achieved, desired, info: (achieved == desired).all(-1) - 1.0
        >>> batch = relabel_episode(episode, "final", 1, reward, np.random.default_rng(0))
        >>> batch.observations["desired_goal"][:, 0], batch.rewards
        (array([3., 3., 3.]), array([-1., -1.,  0.], dtype=float32))
    """
    part = find_strategy(strategy)
    if part.select is None:
        raise ValueError("strategy must choose within the episode, got 'random', which needs others")
    require_function("compute_reward", compute_reward)
    copies = require_count("n_sampled_goal", n_sampled_goal, at_least=1)
    gamma = require_gamma(gamma)
    observations = _require_goals(episode)
    length = len(episode)
    t = np.repeat(np.arange(length), copies)
    sources = part.select(t, np.full_like(t, length), rng)
    goals = _rows(observations["achieved_goal"], sources)
    achieved = _rows(observations["achieved_goal"], t + 1)
    infos = [{key: values[i] for key, values in episode.infos.items()} for i in t]
    rewards = compute_reward(read_only(achieved), read_only(goals), infos)
    last = t == length - 1
    terminations = _terminations(episode, compute_terminated, (achieved, goals, infos), last)
    return Batch(
        _rows(observations, t) | {"desired_goal": goals},
        _rows(episode.actions, t),
        require_rewards("compute_reward", rewards, len(t)),
        _rows(observations, t + 1) | {"desired_goal": _rows(goals, slice(None))},
        terminations,
        last & episode.truncated,
        np.float32(gamma) * ~terminations,
        np.ones(len(t), np.float32),
        np.ones_like(last),
        t,
        Provenance(np.zeros_like(t), sources - 1, np.zeros_like(t), (part.name, ORIGINAL)),
    )


def _require_goals(episode: Episode) -> dict[str, Tree]:
    keys = {"observation", "achieved_goal", "desired_goal"}
    observations = episode.observations
    if not isinstance(observations, dict) or not keys <= set(observations):
        found = sorted(observations) if isinstance(observations, dict) else type(observations).__name__
        raise ValueError(f"an episode to relabel must have the observations {sorted(keys)}, got {found}")
    return observations


def _terminations(
    episode: Episode,
    function: GoalFunction | None,
    outcome: tuple[Tree, Tree, list[dict[str, Any]]],
    last: np.ndarray,
) -> np.ndarray:
    """Return the terminations of the copies, whose last steps these are."""
    if function is None:
        return last & episode.terminated
    recorded = {
        key: _rows(episode.observations[key], slice(-1, None)) for key in ("achieved_goal", "desired_goal")
    }
    info = [{key: values[-1] for key, values in episode.infos.items()}]
    for_its_goal = _ask(function, (recorded["achieved_goal"], recorded["desired_goal"], info), 1)[0]
    other_reason = bool(episode.terminated) and not for_its_goal
    return _ask(function, outcome, len(last)) | (last & other_reason)


def _ask(function: GoalFunction, outcome: tuple[Tree, Tree, list[dict[str, Any]]], count: int) -> np.ndarray:
    achieved, desired, infos = outcome
    ends = function(read_only(achieved), read_only(desired), infos)
    return require_ends("compute_terminated", ends, count)


def _rows(tree: Tree, rows: np.ndarray | slice) -> Any:
    """Return copies of rows of a tree of arrays."""
    return map_tree(lambda leaf: np.array(np.asarray(leaf)[rows]), tree)
