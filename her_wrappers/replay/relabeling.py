"""Rewards and terminations under new desired goals, in a batch and in relabeled copies of an episode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.arguments import require_count, require_function, require_gamma
from her_wrappers.goal_functions import LazilyVectorizedGoalFunction, LoopedGoalFunction
from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.batch import Batch, Provenance, zero_terminal_discounts
from her_wrappers.replay.goal_sampler import GoalMixture, require_no_other_episodes, select_goals
from her_wrappers.replay.rewards import (
    Bools,
    GoalTransition,
    RewardFunction,
    disagreement,
    info_rows,
    read_only,
    rewards_agree,
)
from her_wrappers.replay.terminations import Recompute, TerminationRule, named_rule
from her_wrappers.trees import as_rows_like, concatenate_trees, copy_tree, leaf_arrays, take_rows
from her_wrappers.user_warning import warn_user

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from her_wrappers.files import Json
    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.byte_rows import StoredSteps
    from her_wrappers.replay.goal_sampler import GoalSelection
    from her_wrappers.replay.terminations import TerminationMode
    from her_wrappers.trees import Tree

CHECKED_EPISODES = 10
"""Number of first episodes whose rewards are compared with the reward function."""


class FittedEpisodes(NamedTuple):
    """Result of `Relabeler.fit`.

    Attributes:
        relabeler: The relabeler after the inspection of the episodes.
        goal_independent: (n,) bool, which episodes terminated independently of their goal.
        warnings: Warnings for the user.
    """

    relabeler: Relabeler
    goal_independent: Bools
    warnings: Sequence[str]


@dataclass(frozen=True)
class Relabeler:
    """The reward function and the termination rule, applied to many steps at once.

    Attributes:
        reward: The reward function.
        rule: The termination rule.
        info_keys: Infos that the functions get.
        info_format: Form of these infos, ``"list"`` or ``"columns"``.
        gamma: Discount factor in the batches that ``reward_fn`` gets.
        episodes_to_check: Number of episodes whose rewards are still to be compared with the reward function.
    """

    reward: RewardFunction
    rule: TerminationRule
    info_keys: tuple[str, ...]
    info_format: str
    gamma: float
    episodes_to_check: int = CHECKED_EPISODES

    def relabel(self, batch: Batch, steps: StoredSteps, count: int) -> None:
        """Write rewards and terminations under the new goals to the first ``count`` rows of a batch.

        Args:
            batch: The steps, with the new goals.
            steps: The same steps as records.
            count: Number of relabeled rows.

        Raises:
            ValueError: A function returns a wrong shape or wrong values.
        """
        after = batch.next_observations
        transition = GoalTransition(
            read_only(after["achieved_goal"], count),
            read_only(after["desired_goal"], count),
            info_rows(steps.infos, self.info_keys, self.info_format, count),
            batch.terminations[:count],
            steps.records[0]["goal_independent"][:count],
        )
        rewards = self.reward(transition, batch)
        batch.rewards[:count] = rewards
        terminations = self.rule.terminations(transition, rewards)
        if terminations is not transition.terminated:  # else the batch has them already
            batch.terminations[:count] = terminations

    def fit(self, episodes: Episodes) -> FittedEpisodes:
        """Inspect validated episodes before they are stored.

        Finds the terminations that are independent of the goal, and compares the rewards of the first
        episodes with the reward function. This relabeler does not change; the caller replaces it by the
        returned one.

        Args:
            episodes: n validated episodes.

        Raises:
            ValueError: A function returns a wrong shape or wrong values.
        """
        rule, warnings, left = self.rule, [], self.episodes_to_check
        goal_independent = np.zeros(len(episodes.lengths), np.bool_)
        steps = self._inspected_steps(episodes)
        if len(steps):
            rule, of_steps, warning = self.rule.fit(
                self.recorded(episodes, steps),
                partial(self.rewards_of, episodes, steps),
                partial(self.rewards_of, episodes, steps, goal_key="achieved_goal"),
            )
            goal_independent[np.isin(episodes.ends[1:] - 1, steps[of_steps])] = True
            warnings += [warning] if warning else []
        if left:
            warning = self._compare_rewards(episodes if len(episodes.lengths) <= left else episodes[:left])
            warnings += [warning] if warning else []
            left = 0 if warning else max(0, left - len(episodes.lengths))
        if rule is self.rule and left == self.episodes_to_check:
            return FittedEpisodes(self, goal_independent, warnings)
        return FittedEpisodes(replace(self, rule=rule, episodes_to_check=left), goal_independent, warnings)

    def reset(self) -> Relabeler:
        """Return the relabeler as it was before the first episode."""
        return replace(self, rule=self.rule.with_state(None), episodes_to_check=CHECKED_EPISODES)

    def state_dict(self) -> Json:
        """Return the state that `fit` found in episodes, as JSON."""
        return {
            "rule": self.rule.kind,
            "values": self.rule.state_dict(),
            "episodes_to_check": self.episodes_to_check,
        }

    def with_state(self, state: Json) -> Relabeler:
        """Return the relabeler with a saved state.

        Args:
            state: State that `state_dict` returned. The part of a termination rule of another kind than that
                of this relabeler is ignored.

        Raises:
            KeyError: A part of ``state`` is missing.
            TypeError: A part of ``state`` has a wrong type.
            ValueError: A part of ``state`` has a wrong value.
        """
        count = require_count("episodes_to_check", state["episodes_to_check"], at_least=0)
        rule = self.rule.with_state(state["values"]) if state["rule"] == self.rule.kind else self.rule
        return replace(self, rule=rule, episodes_to_check=count)

    def user_functions(self) -> dict[str, Callable[[GoalTransition, Batch], Any]]:
        """Return functions of (transition, batch) that call the user's functions, by name."""
        functions: dict[str, Callable[[GoalTransition, Batch], Any]] = {self.reward.name: self.reward}
        if isinstance(self.rule, Recompute):
            rule = self.rule
            functions["compute_terminated"] = lambda transition, batch: rule.terminations(
                transition, batch.rewards
            )
        return functions

    @property
    def loops_over_rows(self) -> bool:
        """Whether terminations are computed, or may be computed, for one goal at a time."""
        looped = LoopedGoalFunction | LazilyVectorizedGoalFunction
        return isinstance(self.rule, Recompute) and isinstance(self.rule.function, looped)

    def recorded(
        self, episodes: Episodes, steps: np.ndarray, goal_key: str = "desired_goal"
    ) -> GoalTransition:
        """Return steps of episodes in the form in which the user's functions get them.

        Args:
            episodes: The episodes.
            steps: (B,) indices of steps in the concatenated episodes.
            goal_key: Observation used as the desired goal, ``"achieved_goal"`` or ``"desired_goal"``.
        """
        after = episodes.state_of_step[steps] + 1
        infos = {key: episodes.infos[key][steps] for key in self.info_keys} if self.info_keys else None
        count = len(steps)
        return GoalTransition(
            read_only(take_rows(episodes.observations["achieved_goal"], after), count),
            read_only(take_rows(episodes.observations[goal_key], after), count),
            info_rows(infos, self.info_keys, self.info_format, count),
            _flags_of_steps(episodes, episodes.terminated)[steps],
            np.zeros(count, np.bool_),
        )

    def rewards_of(self, episodes: Episodes, steps: np.ndarray, goal_key: str = "desired_goal") -> Any:
        """Return the rewards that the function computes for steps, (B,) float32.

        `recorded` describes the arguments.
        """
        batch = recorded_batch(episodes, steps, goal_key, self.gamma) if self.reward.takes_batch else None
        # A copy, since a function may return the same array at every call.
        return self.reward(self.recorded(episodes, steps, goal_key), batch).copy()

    def _inspected_steps(self, episodes: Episodes) -> np.ndarray:
        inspects = self.rule.inspects
        if inspects == "all steps":
            return np.arange(episodes.num_steps)
        ends: np.ndarray = episodes.ends[1:]
        return ends[episodes.terminated] - 1 if inspects == "terminated steps" else ends[:0]

    def _compare_rewards(self, episodes: Episodes) -> str | None:
        """Return a warning if recorded rewards differ from the computed rewards; None otherwise."""
        steps = np.arange(len(episodes.rewards))
        recorded, computed = episodes.rewards.astype(np.float32), self.rewards_of(episodes, steps)
        if rewards_agree(recorded, computed):
            return None
        t = steps - episodes.ends[episodes.state_of_step - steps]
        return disagreement(self.reward.name, recorded, computed, t)


def recorded_batch(episodes: Episodes, steps: np.ndarray, goal_key: str, gamma: float) -> Batch:
    """Return copies of recorded steps as a batch.

    Args:
        episodes: The episodes.
        steps: (B,) indices of steps in the concatenated episodes.
        goal_key: ``"desired_goal"``, or ``"achieved_goal"`` for the goals achieved after the steps as desired
            goals.
        gamma: Value of ``discounts``.
    """
    before = episodes.state_of_step[steps]
    observations, next_observations = (
        take_rows(episodes.observations, rows) for rows in (before, before + 1)
    )
    desired = take_rows(episodes.observations[goal_key], before + 1)
    if goal_key != "desired_goal":
        observations, next_observations = (
            each | {"desired_goal": desired} for each in (observations, next_observations)
        )
    return Batch(
        observations,
        take_rows(episodes.actions, steps),
        episodes.rewards[steps].astype(np.float32),
        next_observations,
        _flags_of_steps(episodes, episodes.terminated)[steps],
        _flags_of_steps(episodes, episodes.truncated)[steps],
        np.full(len(steps), gamma, np.float32),
        np.ones(len(steps), np.float32),
        np.ones(len(steps), np.bool_),
        steps,
    )


def _flags_of_steps(episodes: Episodes, flags: np.ndarray) -> Bools:
    """Return (T,) bool with the (n,) flags of episodes at their last steps."""
    of_steps = np.zeros(len(episodes.rewards), np.bool_)
    of_steps[episodes.ends[1:] - 1] = flags
    return of_steps


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
    """Return ``n_sampled_goal`` relabeled copies of every step of an episode, for buffers without goals.

    This is the original form of HER (Andrychowicz et al. 2017, algorithm 1,
    https://arxiv.org/abs/1707.01495): when an episode ends, each of its steps is stored again with other
    goals. `HindsightReplayBuffer` samples new goals for every batch instead, and stores nothing twice.

    Args:
        episode: An episode of a goal environment, T steps.
        strategy: Source of the goals: ``"future"``, ``"final"`` (all copies of a step are equal then),
            ``"episode"``, ``"geometric"`` or `Geometric`, ``"desired"`` with ``desired_goals``, a function
            ``(t, length, rng) -> s``, or a `Mixture` of these; its shares are shares of the copies.
        n_sampled_goal: Copies of every step, k.
        compute_reward: Rewards of a batch of goals; its infos are those of the episode, as a list of dicts.
        rng: Source of all randomness.
        termination: Terminations of the copies, as in `HindsightReplayBuffer`: a function of a batch of
            goals, such as ``GoalInterface.of(env).compute_terminated``, ``"success"``, ``"never"`` or
            ``"keep"``. With a function or ``"success"``, an episode that terminated independently of its goal
            terminates in every copy. The default is ``"keep"``, with a warning if the episode terminated at
            its goal.
        gamma: Discount factor, for ``discounts``.
        desired_goals: (N, ...) desired goals that ``"desired"`` samples uniformly, such as those of earlier
            episodes: an array, or for goals of several parts a dict or tuple of arrays.

    Returns:
        T k transitions, the copies of step 0 first; ``index`` is the step that a row is a copy of, and
        ``goal_index`` the step that achieved its goal or, in rows of ``"desired"``, T + the row of
        ``desired_goals``.

    Raises:
        TypeError: ``episode`` is not an `Episode`, a function is not callable, or ``rng`` is not a generator.
        ValueError: The episode has no goals, the strategy is unknown or needs other episodes, the termination
            rule is unknown or needs a function, ``n_sampled_goal`` is not an integer of at least 1,
            ``desired_goals`` are missing or have another form than the goals of the episode, ``gamma`` is not
            in (0, 1], or a function returns a wrong result.

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
    _require_goals(episode)
    copies = require_count("n_sampled_goal", n_sampled_goal, at_least=1)
    mixture = GoalMixture(strategy, copies, None)
    require_no_other_episodes(mixture, has_desired_goals=desired_goals is not None)
    source, num_desired = _source_of_goals(episode.observations["achieved_goal"], desired_goals)
    require_function("compute_reward", compute_reward)
    gamma, reward = require_gamma(gamma), RewardFunction("compute_reward", compute_reward)
    rule = Recompute(termination) if callable(termination) else named_rule(termination)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}; use np.random.default_rng(seed)")
    relabeler = Relabeler(reward, rule, tuple(episode.infos), "list", gamma, episodes_to_check=0)
    episodes = Episodes.of([episode])
    fitted = relabeler.fit(episodes)
    for warning in fitted.warnings:
        warn_user(warning)

    t = np.repeat(np.arange(len(episode)), copies)
    component, rows = select_goals(mixture, t, len(episode), num_desired, rng)
    goals = take_rows(source, rows)
    batch = recorded_batch(episodes, t, "desired_goal", gamma)
    batch.observations["desired_goal"], batch.next_observations["desired_goal"] = goals, copy_tree(goals)
    transition = fitted.relabeler.recorded(episodes, t)._replace(
        desired_goal=read_only(goals, len(t)),
        goal_independent_termination=(t == len(episode) - 1) & fitted.goal_independent,
    )
    batch.rewards = reward(transition, None)
    batch.terminations = fitted.relabeler.rule.terminations(transition, batch.rewards)
    zero_terminal_discounts(batch.discounts, batch.terminations)
    batch.provenance = Provenance(np.zeros_like(t), rows - 1, component, mixture.names)
    return batch


def _source_of_goals(achieved: Tree, desired_goals: Any) -> tuple[Tree, int]:
    """Return the achieved goals of all states, followed by N desired goals, and N."""
    if desired_goals is None:
        return achieved, 0
    goals = as_rows_like("desired_goals", desired_goals, achieved)
    counts = {len(leaf) for leaf in leaf_arrays(goals)}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"desired_goals must have one number of rows, at least 1, got {sorted(counts)}")
    return concatenate_trees("desired_goals", [achieved, goals]), counts.pop()


def _require_goals(episode: Episode) -> None:
    if not isinstance(episode, Episode):
        raise TypeError(f"relabel_episode takes an Episode, got {type(episode).__name__}")
    keys, observations = set(GOAL_KEYS), episode.observations
    if not isinstance(observations, dict) or not keys <= set(observations):
        found = sorted(observations) if isinstance(observations, dict) else type(observations).__name__
        raise ValueError(f"an episode to relabel must have the observations {sorted(keys)}, got {found}")
