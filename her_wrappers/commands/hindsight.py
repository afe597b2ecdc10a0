"""An episode that missed its goal, and what hindsight makes of it: the data of ``her show-relabeling``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import gymnasium as gym
import numpy as np

from her_envs import TaskEnv
from her_wrappers.checker.goals import flat
from her_wrappers.commands.make import Policy
from her_wrappers.commands.screen import picture_of
from her_wrappers.goal_interface import GoalInterface
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.recorder import EpisodeRecorder
from her_wrappers.replay.batch import Batch
from her_wrappers.replay.relabeling import relabel_episode
from her_wrappers.trees import map_tree

LONGEST = 1000
"""Steps after which an episode without end is cut."""


@dataclass(frozen=True, eq=False)
class Take:
    """An episode, with what it takes to draw its T + 1 states.

    Attributes:
        seed: Of its reset and of its policy.
        episode: What was recorded.
        looks: The states of a bundled task, or the pictures that another environment rendered; empty where it
            renders none.
    """

    seed: int
    episode: Episode
    looks: list[Any]


@dataclass(frozen=True, eq=False)
class Hindsight:
    """An episode under its own goal, and under one that it reached.

    Attributes:
        take: The episode.
        strategy: What chose the goals.
        goal_state: The state whose achieved goal is the goal of hindsight, in 1..T: the one that the strategy
            chose for the first step.
        rewards: (T,) float32 of all steps under that goal.
        reached_before: (T,) which steps reach the goal that the episode had.
        reached_after: (T,) which steps reach that of hindsight.
        copies: k relabeled copies of every step, each with a goal of its own, those of step 0 first.
    """

    take: Take
    strategy: str
    goal_state: int
    rewards: np.ndarray
    reached_before: np.ndarray
    reached_after: np.ndarray
    copies: Batch


@dataclass(frozen=True, eq=False)
class Scene:
    """Where episodes are played.

    Attributes:
        env: A goal environment.
        interface: Its goal interface.
        info_keys: Infos to record.
    """

    env: gym.Env[Any, Any]
    interface: GoalInterface
    info_keys: list[str]

    def film(self, policy: Policy, seed: int) -> Take:
        """Play one episode, and keep how it looked.

        Args:
            policy: What acts.
            seed: Of the reset.
        """
        episodes: list[Episode] = []
        recorder = EpisodeRecorder(
            self.env, episodes.append, info_keys=self.info_keys, max_episode_steps=LONGEST
        )
        observation, _ = recorder.reset(seed=seed)
        looks = [self._look()]
        while not episodes:
            observation, *_ = recorder.step(policy(observation))
            looks.append(self._look())
        return Take(seed, episodes[0], [] if looks[0] is None else looks)

    def _look(self) -> Any:
        env = self.env.unwrapped
        if isinstance(env, TaskEnv):
            return env.state
        return None if self.env.render_mode is None else picture_of(self.env)

    def under(self, episode: Episode, state: int) -> Batch:
        """Return a whole episode under the goal that one of its states achieved."""
        return relabel_episode(
            episode,
            lambda t, length, rng: np.full_like(t, state),
            1,
            self.interface.compute_reward,
            np.random.default_rng(0),
            termination="never",
        )

    def reached_before(self, episode: Episode) -> np.ndarray:
        """Return which steps reach the goal that the episode had, (T,) bool."""
        seen: Any = episode.observations
        env = self.env.unwrapped
        if isinstance(env, TaskEnv):
            return np.asarray(env.task.success(seen["achieved_goal"][1:], seen["desired_goal"][1:]))
        told = episode.infos.get("is_success", np.zeros(len(episode))).astype(bool)
        # What the last step is paid where its own place is the goal is what reaching a goal is paid.
        return np.asarray(told | (episode.rewards >= self.under(episode, len(episode)).rewards[-1]))

    def reached_after(self, after: Batch, state: int) -> np.ndarray:
        """Return which steps of a whole episode reach the goal that one of its states achieved, (T,) bool."""
        seen: Any = after.next_observations
        env = self.env.unwrapped
        if isinstance(env, TaskEnv):
            return np.asarray(env.task.success(seen["achieved_goal"], seen["desired_goal"]))
        return np.asarray(after.rewards >= after.rewards[state - 1])


def farthest_miss(scene: Scene, policy: Callable[[int], Policy], seeds: range) -> Take:
    """Return, of the episodes of some seeds, the one that missed its goal and got farthest.

    This is the distance of the last achieved goal from the first, times the share of their components that
    changed from step to step, which is low along a wall. One that came to its end in the last fifth only is
    preferred to all that were there earlier.

    Args:
        scene: Where they are played.
        policy: Makes the policy of the episode of a seed.
        seeds: Of the episodes.

    Raises:
        ValueError: All of them reached their goals.
    """
    takes = (scene.film(policy(seed), seed) for seed in seeds)
    misses = (take for take in takes if not scene.reached_before(take.episode).any())
    best = max(misses, key=lambda take: _how_far(scene, take.episode), default=None)
    if best is None:
        raise ValueError(
            f"every one of {len(seeds)} episodes reached its goal; "
            "give another --seed, more --episodes, or --policy random"
        )
    return best


def _how_far(scene: Scene, episode: Episode) -> tuple[bool, float]:
    """Return whether the last goal was achieved in the last fifth only, and how far the episode got."""
    length, observations = len(episode), episode.observations
    reached = scene.reached_after(scene.under(episode, length), length)
    achieved = observations["achieved_goal"]
    goals = np.stack([flat(map_tree(itemgetter(t), achieved)) for t in range(length + 1)])
    moving = (goals[1:] != goals[:-1]).mean()
    return not reached[: 4 * length // 5].any(), float(np.linalg.norm(goals[-1] - goals[0]) * moving)


def in_hindsight(scene: Scene, take: Take, strategy: str, n_sampled_goal: int) -> Hindsight:
    """Relabel an episode.

    Args:
        scene: Where it was played.
        take: The episode.
        strategy: What chooses goals.
        n_sampled_goal: Goals for every step, k.
    """
    rng = np.random.default_rng(take.seed)
    copies = relabel_episode(
        take.episode, strategy, n_sampled_goal, scene.interface.compute_reward, rng, termination="never"
    )
    goal_state = int(copies.goal_index[0]) + 1
    after = scene.under(take.episode, goal_state)
    return Hindsight(
        take,
        strategy,
        goal_state,
        after.rewards,
        scene.reached_before(take.episode),
        scene.reached_after(after, goal_state),
        copies,
    )
