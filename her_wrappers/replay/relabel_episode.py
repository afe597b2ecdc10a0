"""relabel_episode: relabeled copies of an episode's steps, for buffers that know nothing of goals.

This is how HER was first written down (Andrychowicz et al. 2017, algorithm 1,
https://arxiv.org/abs/1707.01495): when an episode ends, each of its steps is stored again with other goals.
`HindsightReplayBuffer` draws new goals at every sample instead, and stores nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.arguments import require_count, require_function, require_gamma
from her_wrappers.recording.episode import Episode
from her_wrappers.replay.arrays import read_only
from her_wrappers.replay.batch import Batch, Provenance
from her_wrappers.replay.goals.shares import Shares
from her_wrappers.replay.relabeling.outcomes import Outcomes
from her_wrappers.replay.relabeling.rewards import GoalRewards
from her_wrappers.replay.relabeling.termination import named_termination
from her_wrappers.replay.relabeling.termination_rules import Recompute
from her_wrappers.trees import copy_tree, map_tree

if TYPE_CHECKING:
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.goals.selection import Ints
    from her_wrappers.replay.goals.shares import GoalSelection
    from her_wrappers.replay.relabeling.outcomes import Bools
    from her_wrappers.replay.relabeling.termination import TerminationMode
    from her_wrappers.replay.relabeling.termination_rules import Termination
    from her_wrappers.trees import Tree


def relabel_episode(
    episode: Episode,
    strategy: GoalSelection,
    n_sampled_goal: int,
    compute_reward: GoalFunction,
    rng: np.random.Generator,
    *,
    termination: TerminationMode | GoalFunction | None = None,
    gamma: float = 0.99,
) -> Batch:
    """Return ``n_sampled_goal`` relabeled copies of every step of an episode.

    Args:
        episode: An episode of a goal environment, T steps.
        strategy: Where the goals come from: ``"future"``, ``"final"`` (all copies of a step are alike then),
            ``"episode"``, ``"geometric"`` or `Geometric`, a function ``(t, length, rng) -> s``, or a
            `Mixture` of these: each copy draws one of them by its share.
        n_sampled_goal: Copies of every step, k.
        compute_reward: Rewards of a batch of goals; its infos are the episode's, as a list of dicts.
        rng: Source of all randomness.
        termination: Terminations of the copies, as `HindsightReplayBuffer` has them: a function of a batch of
            goals, such as ``GoalInterface.of(env).compute_terminated``, or ``"success"``; a last step that
            terminated for another reason than its goal then does so in every copy. Or ``"never"``, or
            ``"keep"``, which is the default, with a warning where the episode terminated at its goal.
        gamma: Discount factor, for ``discounts``.

    Returns:
        T k transitions, the copies of step 0 first; ``index`` is the step that each is a copy of, and
        ``goal_index`` the step that achieved its goal.

    Raises:
        TypeError: The episode is none, a function is none, or ``rng`` is no generator.
        ValueError: The episode has no goals, there is no such strategy within an episode or no such rule for
            terminations, ``gamma`` is not in (0, 1], or a function answers wrongly.

    Example:
        >>> from her_wrappers import Episode
        >>> seen = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), np.arange(4.0)[:, None])
        >>> episode = Episode(seen, np.zeros(3), np.zeros(3), terminated=False, truncated=True)
        >>> reward = lambda achieved, desired, info: (achieved == desired).all(-1) - 1.0
        >>> batch = relabel_episode(episode, "final", 1, reward, np.random.default_rng(0))
        >>> batch.observations["desired_goal"][:, 0], batch.rewards
        (array([3., 3., 3.]), array([-1., -1.,  0.], dtype=float32))
    """
    observations = _require_goals(episode)
    copies = require_count("n_sampled_goal", n_sampled_goal, at_least=1)
    shares = Shares(strategy, copies, None)
    require_function("compute_reward", compute_reward)
    gamma, rewards = require_gamma(gamma), GoalRewards(compute_reward)
    rule = Recompute(termination) if callable(termination) else named_termination(termination)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}; use np.random.default_rng(seed)")
    t = np.repeat(np.arange(len(episode)), copies)
    parts, states = _draw_states(shares, t, len(episode), rng)
    goals = _rows(observations["achieved_goal"], states)
    outcomes = _outcomes(episode, t, goals, _other_reasons(episode, rule, rewards)[t])
    paid = rewards.of(outcomes)
    terminations = rule.ends(outcomes, paid)
    return Batch(
        _rows(observations, t) | {"desired_goal": goals},
        _rows(episode.actions, t),
        paid,
        _rows(observations, t + 1) | {"desired_goal": copy_tree(goals)},
        terminations,
        _at_end(episode, t) & episode.truncated,
        np.float32(gamma) * ~terminations,
        np.ones(len(t), np.float32),
        np.ones(len(t), np.bool_),
        t,
        Provenance(np.zeros_like(t), states - 1, parts, shares.names),
    )


def _require_goals(episode: Episode) -> dict[str, Tree]:
    """Return the observations of an episode of a goal environment.

    Raises:
        TypeError: It is no episode.
        ValueError: It is one of another environment.
    """
    if not isinstance(episode, Episode):
        raise TypeError(f"relabel_episode takes an Episode, got {type(episode).__name__}")
    keys = {"observation", "achieved_goal", "desired_goal"}
    observations = episode.observations
    if not isinstance(observations, dict) or not keys <= set(observations):
        found = sorted(observations) if isinstance(observations, dict) else type(observations).__name__
        raise ValueError(f"an episode to relabel must have the observations {sorted(keys)}, got {found}")
    return observations


def _draw_states(shares: Shares, t: Ints, length: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw the part that each copy of the steps ``t`` is of, and the state that achieves its goal.

    Raises:
        ValueError: A part needs other episodes.
    """
    odds = np.array([part.share for part in shares.parts])
    parts = rng.choice(len(odds), len(t), p=odds / odds.sum())
    states = np.empty_like(t)
    for number, part in enumerate(shares.parts):
        if part.select is None:
            raise ValueError(
                f"strategy must choose within the episode, got {part.name!r}, which needs others"
            )
        rows = np.flatnonzero(parts == number)
        if len(rows):
            states[rows] = part.select(t[rows], np.full_like(rows, length), rng)
    return parts, states


def _other_reasons(episode: Episode, rule: Termination, rewards: GoalRewards) -> Bools:
    """Return which steps ended the episode for another reason than the recorded goal, (T,) bool."""
    steps = np.arange(len(episode))
    other_reason = np.zeros(len(episode), np.bool_)
    if rule.studies != "all steps":
        steps = steps[_at_end(episode, steps) & episode.terminated]
    if len(steps):
        desired = _rows(episode.observations["desired_goal"], steps + 1)
        recorded = _outcomes(episode, steps, desired, other_reason[steps])
        reached = recorded._replace(desired_goal=recorded.achieved_goal)
        other_reason[steps] = rule.learn(recorded, lambda: rewards.of(recorded), lambda: rewards.of(reached))
    return other_reason


def _outcomes(episode: Episode, t: Ints, desired: Tree, other_reason: Bools) -> Outcomes:
    """Return what steps lead to under other goals."""
    return Outcomes(
        achieved_goal=read_only(_rows(episode.observations["achieved_goal"], t + 1)),
        desired_goal=read_only(desired),
        info=[{key: values[i] for key, values in episode.infos.items()} for i in t],
        terminated=_at_end(episode, t) & episode.terminated,
        other_reason=other_reason,
    )


def _at_end(episode: Episode, t: Ints) -> Bools:
    ends: Bools = t == len(episode) - 1
    return ends


def _rows(tree: Tree, rows: Ints) -> Any:
    """Return copies of rows of a tree of arrays."""
    return map_tree(lambda leaf: np.take(leaf, rows, axis=0), tree)
