"""Stable-Baselines3's ``HerReplayBuffer``.

https://stable-baselines3.readthedocs.io/en/master/modules/her.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks.replay_buffers.contender import SAMPLED_GOALS, BatchColumns, Contender
from benchmarks.replay_task import ACTION_SPACE, OBSERVATION_SPACE, compute_reward

if TYPE_CHECKING:
    from her_wrappers import Episode


class RewardOnly(gym.Env[Any, Any]):
    """An environment with only the spaces and `compute_reward`, which the buffer needs."""

    def __init__(self, observation_space: gym.spaces.Dict) -> None:
        self.observation_space, self.action_space = observation_space, ACTION_SPACE

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the rewards of a batch of goals."""
        return compute_reward(achieved_goal, desired_goal)


class StableBaselines3(Contender):
    """`HerReplayBuffer` with one environment, on the CPU."""

    name = "Stable-Baselines3"
    setting = "`HerReplayBuffer`, one DummyVecEnv, device cpu; `sample` returns tensors"

    def __init__(self, capacity: int) -> None:
        self.buffer = make_buffer(capacity, OBSERVATION_SPACE)

    def step_arguments(self, episode: Episode) -> list[tuple[Any, ...]]:
        return steps_of(episode)

    def add_step(self, step: tuple[Any, ...]) -> None:
        self.buffer.add(*step)

    def sample(self, batch_size: int) -> Any:
        return self.buffer.sample(batch_size)

    def columns(self, batch: Any) -> BatchColumns:
        columns = (
            batch.next_observations["achieved_goal"],
            batch.observations["desired_goal"],
            batch.rewards[:, 0],
        )
        return BatchColumns(*(column.numpy() for column in columns))


def steps_of(episode: Episode) -> list[tuple[Any, ...]]:
    """Return the arguments of `add` for each step: arrays with a leading axis for the environments."""
    states = [
        {key: states[t : t + 1] for key, states in episode.observations.items()}
        for t in range(len(episode) + 1)
    ]
    return [
        (
            states[t],
            states[t + 1],
            episode.actions[t : t + 1],
            episode.rewards[t : t + 1],
            np.array([t + 1 == len(episode)]),
            [{"TimeLimit.truncated": t + 1 == len(episode)}],
        )
        for t in range(len(episode))
    ]


def make_buffer(capacity: int, observation_space: gym.spaces.Dict) -> HerReplayBuffer:
    """Return a buffer, made as in its documentation."""
    return HerReplayBuffer(
        capacity,
        observation_space,
        ACTION_SPACE,
        env=DummyVecEnv([lambda: RewardOnly(observation_space)]),
        device="cpu",
        n_sampled_goal=SAMPLED_GOALS,
        goal_selection_strategy="future",
    )


def array_bytes(capacity: int, observation_space: gym.spaces.Dict) -> int:
    """Return the bytes of a buffer's arrays; the dicts of its infos are not counted."""
    buffer = make_buffer(capacity, observation_space)
    arrays = [*buffer.observations.values(), *buffer.next_observations.values()]
    arrays += [
        array for name, array in vars(buffer).items() if isinstance(array, np.ndarray) and name != "infos"
    ]
    return sum(array.nbytes for array in arrays)
