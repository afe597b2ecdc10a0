"""Adapter for Tianshou's ``HERReplayBuffer`` and ``HERVectorReplayBuffer``."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from tianshou.data import Batch, HERReplayBuffer, HERVectorReplayBuffer

from benchmarks.scoreboard_claims import offers_of
from her_wrappers.conformance.adapter import ReplayAdapter

if TYPE_CHECKING:
    import gymnasium as gym


def _rewards(env: Any, achieved: np.ndarray, desired: np.ndarray) -> Any:
    """Return the rewards of pairs of goals. A nested function would make the buffer impossible to pickle."""
    return env.compute_reward(achieved, desired, [{}] * len(achieved))


class Tianshou(ReplayAdapter):
    """Adapter with ``future_k=n_sampled_goal``: Tianshou documents ``future_k`` as k of the HER paper."""

    name = f"Tianshou {version('tianshou')}"
    offers = offers_of("tianshou:Tianshou")

    def __init__(
        self, env: gym.Env[Any, Any], *, buffer_size: int, n_sampled_goal: int, **options: Any
    ) -> None:
        self._space: Any = env.observation_space
        arguments: dict[str, Any] = {
            "compute_reward_fn": partial(_rewards, env),
            "horizon": options["max_episode_steps"],
            "future_k": n_sampled_goal,
        }
        self._num_envs = options.get("num_envs", 1)
        self.buffer: Any = (
            HERReplayBuffer(buffer_size, **arguments)
            if self._num_envs == 1
            else HERVectorReplayBuffer(buffer_size, self._num_envs, **arguments)
        )

    def add(self, *transition: Any, env_index: int = 0) -> None:
        """Add a transition of the environment ``env_index``."""
        obs, action, reward, next_obs, terminated, truncated, _ = transition
        step = {"act": action, "rew": reward, "terminated": terminated, "truncated": truncated, "info": {}}
        if self._num_envs == 1:
            self.buffer.add(Batch(obs=Batch(obs), obs_next=Batch(next_obs), **step))
            return
        states, next_states = (
            Batch({key: np.asarray(value)[None] for key, value in each.items()}) for each in (obs, next_obs)
        )
        columns = {key: np.asarray(value)[None] for key, value in step.items() if key != "info"}
        self.buffer.add(
            Batch(obs=states, obs_next=next_states, info=Batch(), **columns), buffer_ids=np.array([env_index])
        )

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a batch in the format of `ReplayAdapter.sample`."""
        batch, _ = self.buffer.sample(batch_size)
        arrays = {
            prefix + key: np.asarray(states[key]).reshape(batch_size, *self._space[key].shape)
            for prefix, states in (("", batch.obs), ("next_", batch.obs_next))
            for key in self._space
        }
        return arrays | {
            "action": np.asarray(batch.act),
            "reward": np.asarray(batch.rew),
            "terminated": np.asarray(batch.terminated),
            "truncated": np.asarray(batch.truncated),
        }

    def save(self, path: str) -> None:
        """Save the buffer as an HDF5 file."""
        self.buffer.save_hdf5(path)

    def load(self, path: str) -> None:
        """Load the buffer from an HDF5 file."""
        self.buffer = type(self.buffer).load_hdf5(path)
