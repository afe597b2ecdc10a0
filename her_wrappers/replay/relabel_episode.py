"""relabel_episode: relabeled copies of the steps of one episode, for buffers that do not support goals."""

from __future__ import annotations

import numpy as np

from her_wrappers.data.trees import copy_tree, take_rows
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.batch import Batch, Provenance
from her_wrappers.replay.goal_selection import GoalMixture, GoalSelection
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
) -> Batch:
    """Return ``n_sampled_goal`` relabeled copies of each step of an episode, for buffers that cannot relabel.

    Source: Andrychowicz et al. 2017, algorithm 1, https://arxiv.org/abs/1707.01495

    Args:
        episode: An episode of a goal environment, T steps.
        strategy: Source of the goals: ``"future"``, ``"final"`` (all copies of a step are equal then),
            ``"episode"``, ``"geometric"`` or `Geometric`, a function ``(t, length, rng) -> s`` from steps to
            goal states, or a `Mixture` of these.
        n_sampled_goal: Number of copies of every step, k.
        compute_reward: Function that returns the rewards of a batch of goals; it gets the infos of the
            episode as a list of dicts.
        rng: Random generator that selects the goals.
        termination: Rule for terminations of the copies, as in `HindsightReplayBuffer`: ``"success"``,
            ``"never"``, ``"keep"``, or a function of a batch of goals, such as the method
            ``GoalInterface.of(env).compute_terminated``. The default is ``"keep"``, with a warning if the
            episode terminated at its goal.
        gamma: Discount factor, from which the ``discounts`` of the copies are computed.

    Returns:
        A batch of T * k transitions, the copies of step 0 first. For each row, ``index`` is the number of the
        copied step, and ``goal_index`` is the number of the step that achieved the new goal.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: The episode has no goals, the strategy is unknown or needs other episodes, an argument has
            a wrong value, or a function returns a wrong result.

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
        got = sorted(observations) if isinstance(observations, dict) else type(observations).__name__
        keys = sorted(OBSERVATION_KEYS)
        raise ValueError(f"episode.observations must be a dict with the keys {keys}, got {got}")
    copies = require_count("n_sampled_goal", n_sampled_goal, at_least=1)
    mixture = GoalMixture(strategy, copies)
    require_function("compute_reward", compute_reward)
    gamma = require_gamma(gamma)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}; use np.random.default_rng(seed)")
    rule = resolve_termination(termination, None)
    relabeler = Relabeler(compute_reward, None, rule, tuple(episode.infos), gamma)
    length, episodes = len(episode), Episodes.of([episode])
    (goal_independent,), relabeler.seen = relabeler.find_goal_independent(episodes)
    EpisodeChecks(relabeler).warn_of_kept_terminations(episodes)

    t = np.repeat(np.arange(length), copies)
    shares = np.array([each.share for each in mixture.components])
    component, rows = rng.choice(len(shares), len(t), p=shares / shares.sum()), np.empty_like(t)
    for number, each in enumerate(mixture.components):
        if each.select is None:
            raise ValueError(
                f"strategy {each.name!r} takes goals from other episodes, but relabel_episode() has only one "
                "episode; use another strategy, such as 'future'"
            )
        chosen = np.flatnonzero(component == number)
        rows[chosen] = each.select(t[chosen], np.full(len(chosen), length), rng)
    goals = take_rows(observations["achieved_goal"], rows)
    batch = recorded_batch(episodes, t, "desired_goal", gamma)
    batch.observations["desired_goal"], batch.next_observations["desired_goal"] = goals, copy_tree(goals)
    infos = take_rows(episode.infos, t)
    is_independent = (t == length - 1) & goal_independent
    batch.rewards, batch.terminations = relabeler.relabel(batch, infos, is_independent, len(t))
    batch.discounts *= ~batch.terminations
    batch.provenance = Provenance(np.zeros_like(t), rows - 1, component, mixture.names)
    return batch
