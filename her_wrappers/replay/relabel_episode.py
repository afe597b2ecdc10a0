"""relabel_episode: relabeled copies of the steps of one episode, for buffers that do not support goals."""

from __future__ import annotations

from typing import Any

import numpy as np

from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.data.trees import Tree, concatenate_trees, copy_tree, take_rows, try_as_array
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.batch import Batch, Provenance
from her_wrappers.replay.goal_selection import GoalMixture, GoalSelection, uniform_below
from her_wrappers.replay.relabeling import Relabeler, TerminationMode, recorded_batch, resolve_termination
from her_wrappers.replay.relabeling_warnings import EpisodeChecks
from her_wrappers.support.arguments import require_count, require_function, require_gamma


def relabel_episode(
    episode: Episode,
    strategy: GoalSelection,
    n_sampled_goal: int,
    compute_reward: GoalFunction,
    rng: np.random.Generator,
    *,
    termination: TerminationMode | GoalFunction | None = None,
    gamma: float = 0.99,
    desired_goals: Tree | None = None,
) -> Batch:
    """Return ``n_sampled_goal`` relabeled copies of each step of an episode, for buffers that cannot relabel.

    This is the original form of HER (Andrychowicz et al. 2017, algorithm 1,
    https://arxiv.org/abs/1707.01495): when an episode ends, each of its steps is stored again with other
    goals. `HindsightReplayBuffer` samples new goals for every batch instead, and stores nothing twice.

    Args:
        episode: An episode of a goal environment, T steps.
        strategy: Source of the goals: ``"future"``, ``"final"`` (all copies of a step are equal then),
            ``"episode"``, ``"geometric"`` or `Geometric`, ``"desired"`` with ``desired_goals``, a function
            ``(t, length, rng) -> s`` from steps to goal states, or a `Mixture` of these.
        n_sampled_goal: Number of copies of every step, k.
        compute_reward: Function that returns the rewards of a batch of goals; it gets the infos of the
            episode as a list of dicts.
        rng: Random generator that selects the goals.
        termination: Rule for terminations of the copies, as in `HindsightReplayBuffer`: ``"success"``,
            ``"never"``, ``"keep"``, or a function of a batch of goals, such as the method
            ``GoalInterface.of(env).compute_terminated``. With ``"success"`` or a function, all copies of the
            last step also terminate if the episode terminated independently of its goal, such as by a crash.
            The default is ``"keep"``, with a warning if the episode terminated at its goal.
        gamma: Discount factor, from which the ``discounts`` of the copies are computed.
        desired_goals: (N, ...) desired goals that ``"desired"`` samples uniformly, such as the goals of
            earlier episodes: an array, or for goals of several parts a dict or tuple of arrays.

    Returns:
        A batch of T * k transitions, the copies of step 0 first. For each row, ``index`` is the number of the
        copied step, and ``goal_index`` is the number of the step that achieved the new goal. In rows of the
        strategy ``"desired"``, ``goal_index`` is T plus the index of the goal in ``desired_goals``.

    Raises:
        TypeError: ``episode`` is not an `Episode`, ``compute_reward`` is not callable, or ``rng`` is not a
            ``numpy.random.Generator``.
        ValueError: The episode has no goals, the strategy is unknown or needs other episodes, the termination
            rule is unknown or needs a function, ``n_sampled_goal`` is not an integer of at least 1,
            ``desired_goals`` are missing or have another form than the goals of the episode, ``gamma`` is not
            in [0, 1], or a function returns a wrong result.

    Example:
        >>> from her_wrappers import Episode
        >>> keys = ("observation", "achieved_goal", "desired_goal")
        >>> observations = dict.fromkeys(keys, np.arange(4.0)[:, None])
        >>> episode = Episode(observations, np.zeros(3), np.zeros(3), terminated=False, truncated=True)
        >>> reward = lambda achieved, desired, info: (achieved == desired).all(-1) - 1.0
        >>> batch = relabel_episode(episode, "final", 1, reward, np.random.default_rng(0))
        >>> batch.observations["desired_goal"][:, 0], batch.rewards
        (array([3., 3., 3.]), array([-1., -1.,  0.], dtype=float32))
    """
    if not isinstance(episode, Episode):
        raise TypeError(f"relabel_episode() takes an Episode, got {type(episode).__name__}")
    observations = episode.observations
    if not isinstance(observations, dict) or not set(OBSERVATION_KEYS) <= set(observations):
        is_dict = isinstance(observations, dict)
        found = f"a dict with the keys {sorted(observations)}" if is_dict else type(observations).__name__
        keys = sorted(OBSERVATION_KEYS)
        raise ValueError(f"episode.observations must be a dict with the keys {keys}, got {found}")
    copies = require_count("n_sampled_goal", n_sampled_goal, at_least=1)
    mixture = GoalMixture(strategy, copies)
    for each in mixture.components:
        if each.select is None and not (each.takes_desired and desired_goals is not None):
            fix = "pass desired_goals=" if each.takes_desired else "use another strategy, such as 'future'"
            reason = "takes goals from other episodes, but relabel_episode() has only this one"
            raise ValueError(f"strategy {each.name!r} {reason}; {fix}")
    source, num_desired = _source_of_goals(episode.observations["achieved_goal"], desired_goals)
    require_function("compute_reward", compute_reward)
    gamma = require_gamma(gamma)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}; use np.random.default_rng(seed)")
    rule = resolve_termination(termination, None)
    relabeler = Relabeler(compute_reward, None, rule, tuple(episode.infos), gamma)
    length, episodes = len(episode), Episodes.of([episode])
    (goal_independent,), relabeler.seen = relabeler.goal_independent(episodes)
    EpisodeChecks(relabeler).warn_of_kept_terminations(episodes)

    t = np.repeat(np.arange(length), copies)
    shares = np.array([each.share for each in mixture.components])
    component, rows = rng.choice(len(shares), len(t), p=shares / shares.sum()), np.empty_like(t)
    for number, each in enumerate(mixture.components):
        chosen = np.flatnonzero(component == number)
        if each.select is None:
            rows[chosen] = length + 1 + uniform_below(num_desired, len(chosen), rng)
        else:
            rows[chosen] = each.select(t[chosen], np.full(len(chosen), length), rng)
    goals, batch = take_rows(source, rows), recorded_batch(episodes, t, "desired_goal", gamma)
    batch.observations["desired_goal"], batch.next_observations["desired_goal"] = goals, copy_tree(goals)
    infos = take_rows(episode.infos, t)
    is_independent = (t == length - 1) & goal_independent
    batch.rewards, batch.terminations = relabeler.relabel(batch, infos, is_independent, len(t))
    batch.discounts *= ~batch.terminations
    batch.provenance = Provenance(np.zeros_like(t), rows - 1, component, mixture.names)
    return batch


def _source_of_goals(achieved: Tree, desired_goals: Any) -> tuple[Tree, int]:
    """Return (goals, N): ``goals`` has a row for each achieved goal, then one for each of N desired goals."""
    if desired_goals is None:
        return achieved, 0
    spec = SpaceSpec.of_rows("desired_goals", achieved)
    first = try_as_array(spec.leaves[0].find(desired_goals, "in desired_goals"))
    count = len(first) if first.ndim else 0
    if count == 0:
        raise ValueError(f"desired_goals must have at least one row, got {desired_goals!r}")
    goals = spec.check_rows(desired_goals, count, "all goals")
    return concatenate_trees("desired_goals", [achieved, goals]), count
