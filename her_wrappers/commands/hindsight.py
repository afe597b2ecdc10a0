"""A failed episode and its relabeling: the data of ``her show-relabeling``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import gymnasium as gym
import numpy as np

from her_envs import TaskEnv
from her_wrappers.checker.goal_calls import flat
from her_wrappers.commands.make import Policy
from her_wrappers.commands.screen import picture_of
from her_wrappers.goal_interface import GoalInterface
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.replay.batch import Batch
from her_wrappers.replay.relabel_episode import relabel_episode
from her_wrappers.trees import map_tree

MAX_EPISODE_STEPS = 1000
"""Number of steps after which an episode is truncated."""


@dataclass(frozen=True, eq=False)
class RenderedEpisode:
    """An episode, with the data for pictures of its T + 1 states.

    Attributes:
        seed: Seed of the reset.
        episode: The recorded episode.
        frames: T + 1 states of a bundled task, or T + 1 pictures that another environment rendered; empty if
            the environment does not render.
    """

    seed: int
    episode: Episode
    frames: list[Any]


@dataclass(frozen=True, eq=False)
class Hindsight:
    """An episode with its own goal, and with a goal that it achieved.

    Attributes:
        rendered: The episode.
        strategy: Goal selection strategy.
        goal_state: Number of the state whose achieved goal is the new goal, in 1..T: the state that the
            strategy selected for the first step.
        rewards: (T,) float32, rewards for the new goal.
        reached_before: (T,) bool, steps that reach the episode's own goal.
        reached_after: (T,) bool, steps that reach the new goal.
        copies: k relabeled copies of every step, with goals from the strategy; the copies of step 0 first.
    """

    rendered: RenderedEpisode
    strategy: str
    goal_state: int
    rewards: np.ndarray
    reached_before: np.ndarray
    reached_after: np.ndarray
    copies: Batch


@dataclass(frozen=True, eq=False)
class EpisodeRenderer:
    """Plays and relabels episodes of one environment.

    Attributes:
        env: A goal environment.
        interface: Goal interface of the environment.
        info_keys: Keys of the infos to record.
    """

    env: gym.Env[Any, Any]
    interface: GoalInterface
    info_keys: list[str]

    def render_episode(self, policy: Policy, seed: int) -> RenderedEpisode:
        """Play one episode of at most `MAX_EPISODE_STEPS` steps, and render its states.

        Args:
            policy: Policy that chooses the actions.
            seed: Seed of the reset.
        """
        episodes: list[Episode] = []
        recorder = EpisodeRecorder(
            self.env, episodes.append, info_keys=self.info_keys, max_episode_steps=MAX_EPISODE_STEPS
        )
        observation, _ = recorder.reset(seed=seed)
        frames = [self._frame()]
        while not episodes:
            observation, *_ = recorder.step(policy(observation))
            frames.append(self._frame())
        return RenderedEpisode(seed, episodes[0], [] if frames[0] is None else frames)

    def _frame(self) -> Any:
        env = self.env.unwrapped
        if isinstance(env, TaskEnv):
            return env.state
        return None if self.env.render_mode is None else picture_of(self.env)

    def relabel(self, episode: Episode, state: int) -> Batch:
        """Return all T steps of an episode with the goal that one of its states achieved.

        Args:
            episode: The episode.
            state: Number of the state, in 1..T.
        """
        return relabel_episode(
            episode,
            lambda t, length, rng: np.full_like(t, state),
            1,
            self.interface.compute_reward,
            np.random.default_rng(0),
            termination="never",
        )

    def reached_before(self, episode: Episode) -> np.ndarray:
        """Return (T,) bool: which steps reach the episode's own goal."""
        observations: Any = episode.observations
        env = self.env.unwrapped
        if isinstance(env, TaskEnv):
            success = env.task.success(observations["achieved_goal"][1:], observations["desired_goal"][1:])
            return np.asarray(success)
        flags = episode.infos.get("is_success", np.zeros(len(episode))).astype(bool)
        # The last step reaches the goal that it achieved, so its reward is the reward of a reached goal.
        return np.asarray(flags | (episode.rewards >= self.relabel(episode, len(episode)).rewards[-1]))

    def reached_after(self, relabeled: Batch, state: int) -> np.ndarray:
        """Return (T,) bool: which relabeled steps reach the new goal.

        Args:
            relabeled: The T steps that `relabel` returned.
            state: Number of the state that achieved the new goal, in 1..T.
        """
        observations: Any = relabeled.next_observations
        env = self.env.unwrapped
        if isinstance(env, TaskEnv):
            return np.asarray(env.task.success(observations["achieved_goal"], observations["desired_goal"]))
        return np.asarray(relabeled.rewards >= relabeled.rewards[state - 1])


def farthest_miss(
    renderer: EpisodeRenderer, policy: Callable[[int], Policy], seeds: range
) -> RenderedEpisode:
    """Play an episode for each seed; return the failed episode that moved its achieved goal farthest.

    The measure is the distance between the first and the last achieved goal, times the mean share of goal
    components that change in a step. This share is low if the agent moves along a wall. Episodes that achieve
    their last goal only in the last fifth of their steps are preferred.

    Args:
        renderer: The environment.
        policy: Function that returns the policy for a seed.
        seeds: Seeds of the episodes.

    Raises:
        ValueError: All episodes reached their goals.
    """
    episodes = (renderer.render_episode(policy(seed), seed) for seed in seeds)
    misses = (each for each in episodes if not renderer.reached_before(each.episode).any())
    best = max(misses, key=lambda each: _score(renderer, each.episode), default=None)
    if best is None:
        raise ValueError(
            f"a failed episode is needed, but all {len(seeds)} episodes reached their goals; "
            "use another --seed, more --episodes, or --policy random"
        )
    return best


def _score(renderer: EpisodeRenderer, episode: Episode) -> tuple[bool, float]:
    length, observations = len(episode), episode.observations
    reached = renderer.reached_after(renderer.relabel(episode, length), length)
    achieved = observations["achieved_goal"]
    goals = np.stack([flat(map_tree(itemgetter(t), achieved)) for t in range(length + 1)])
    moving = (goals[1:] != goals[:-1]).mean()
    return not reached[: 4 * length // 5].any(), float(np.linalg.norm(goals[-1] - goals[0]) * moving)


def in_hindsight(
    renderer: EpisodeRenderer, rendered: RenderedEpisode, strategy: str, n_sampled_goal: int
) -> Hindsight:
    """Relabel an episode, and determine which steps reach its own goal and the new goal.

    Args:
        renderer: The environment.
        rendered: The episode.
        strategy: Goal selection strategy.
        n_sampled_goal: Number of goals for every step, k.
    """
    episode, rng = rendered.episode, np.random.default_rng(rendered.seed)
    copies = relabel_episode(
        episode, strategy, n_sampled_goal, renderer.interface.compute_reward, rng, termination="never"
    )
    goal_state = int(copies.goal_index[0]) + 1
    relabeled = renderer.relabel(episode, goal_state)
    return Hindsight(
        rendered,
        strategy,
        goal_state,
        relabeled.rewards,
        renderer.reached_before(episode),
        renderer.reached_after(relabeled, goal_state),
        copies,
    )
