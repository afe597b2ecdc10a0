"""cpprb's buffers, written in C++: with HER, with priorities, and with both.

https://ymd_h.gitlab.io/cpprb/features/her/, https://ymd_h.gitlab.io/cpprb/features/per/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from cpprb import HindsightReplayBuffer, PrioritizedReplayBuffer
from numpy.typing import NDArray

from benchmarks.replay_buffers.contender import SAMPLED_GOALS, BatchColumns, Contender
from benchmarks.replay_buffers.prioritized import ALPHA, BETA, EPS, Prioritized
from benchmarks.replay_task import ACTION, GOAL, HORIZON, OBSERVATION, Floats, compute_reward

if TYPE_CHECKING:
    from her_wrappers import Episode


def goal_of(state: Floats) -> Floats:
    """Return the goal that a state achieves."""
    return state[:, :GOAL]


def reward_of(next_state: Floats, action: Floats, goal: Floats) -> Floats:
    """Return the reward, with the arguments of cpprb's ``reward_func``."""
    return compute_reward(goal_of(next_state), goal)


class Cpprb(Contender):
    """cpprb relabels when an episode ends, and stores k + 1 rows per transition, each with its own goal."""

    name = "cpprb"
    setting = (
        "`HindsightReplayBuffer`, `prioritized=False`; it relabels when an episode is stored, and stores "
        "every transition five times: one fifth of its rows are distinct transitions"
    )
    rows_per_transition = SAMPLED_GOALS + 1
    prioritized = False

    def __init__(self, capacity: int) -> None:
        self.buffer = HindsightReplayBuffer(
            capacity,
            {"obs": {"shape": OBSERVATION}, "act": {"shape": ACTION}, "next_obs": {"shape": OBSERVATION}},
            max_episode_len=HORIZON,
            reward_func=reward_of,
            goal_func=goal_of,
            goal_shape=(GOAL,),
            strategy="future",
            additional_goals=SAMPLED_GOALS,
            prioritized=self.prioritized,
        )

    def step_arguments(self, episode: Episode) -> list[tuple[Any, ...]]:
        """Return the arguments of `add` for each step; the last step also has the goal of the episode."""
        columns, goal = self.episode_argument(episode)
        return [
            ({key: column[t] for key, column in columns.items()}, goal if t + 1 == len(episode) else None)
            for t in range(len(episode))
        ]

    def add_step(self, step: tuple[Any, ...]) -> None:
        """Add one transition; after the last transition, relabel the episode."""
        columns, goal = step
        self.buffer.add(**columns)
        if goal is not None:
            self.buffer.on_episode_end(goal)

    def episode_argument(self, episode: Episode) -> tuple[Any, ...]:
        """Return an episode's columns and its goal."""
        states = episode.observations["observation"]
        columns = {"obs": states[:-1], "act": episode.actions, "next_obs": states[1:]}
        return columns, episode.observations["desired_goal"][0]

    def add_episode(self, argument: tuple[Any, ...]) -> None:
        """Add all transitions in one call, and relabel the episode."""
        self.add_step(argument)

    def sample(self, batch_size: int) -> dict[str, Any]:
        return self.buffer.sample(batch_size)

    def columns(self, batch: dict[str, Any]) -> BatchColumns:
        return BatchColumns(goal_of(batch["next_obs"]), batch["goal"], batch["rew"][:, 0])


class CpprbPrioritized(Cpprb, Prioritized):
    """Cpprb with priorities: each of the k + 1 rows of a transition has its own priority."""

    name = "cpprb with HER"
    prioritized = True

    def sample(self, batch_size: int) -> dict[str, Any]:
        return self.buffer.sample(batch_size, beta=BETA)

    def index(self, batch: dict[str, Any]) -> NDArray[np.integer[Any]]:
        return batch["indexes"]


class CpprbPlain(CpprbPrioritized):
    """A buffer without relabeling."""

    name = "cpprb without HER"
    rows_per_transition = 1

    def __init__(self, capacity: int) -> None:
        states = {"shape": OBSERVATION}
        columns = {"obs": states, "act": {"shape": ACTION}, "rew": {}, "next_obs": states, "done": {}}
        self.buffer = PrioritizedReplayBuffer(capacity, columns, alpha=ALPHA, eps=EPS)

    def episode_argument(self, episode: Episode) -> tuple[Any, ...]:
        """Return the columns of an episode, (T, ...) arrays, as the arguments of `add`."""
        columns, _ = super().episode_argument(episode)
        return ({**columns, "rew": episode.rewards, "done": np.zeros(len(episode))},)

    def add_episode(self, argument: tuple[Any, ...]) -> None:
        self.buffer.add(**argument[0])
        self.buffer.on_episode_end()
