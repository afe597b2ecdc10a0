"""Adapter that tests her-toolkit's `HerReplayBuffer`, a replacement for SB3's class of that name."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar

from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl
from stable_baselines3.common.vec_env import DummyVecEnv

from her_wrappers.conformance.adapter import OFFERS, ReplayAdapter
from her_wrappers.conformance.adapters.ours import stacked, states_of_shape
from her_wrappers.integrations.sb3 import HerReplayBuffer


class OursForStableBaselines3(ReplayAdapter):
    """Adapter of ``integrations.sb3.HerReplayBuffer`` with ``copy_info_dict=True``, on the CPU."""

    name = "her-toolkit, for Stable-Baselines3"
    offers = frozenset(OFFERS) - {"save generator", "priorities"}
    samples_open_episodes, evicts, ends_all_episodes = False, "episodes", True
    buffer_class: ClassVar[Callable[..., Any]] = HerReplayBuffer

    def __init__(
        self, env: Any, *, strategy: str, max_episode_steps: int, num_envs: int = 1, **options: Any
    ) -> None:
        self._space, self._num_envs = env.observation_space, num_envs
        self._steps: list[tuple[Any, ...]] = []
        self._envs = DummyVecEnv([lambda: copy(env)] * num_envs)  # needs distinct objects
        self.buffer = self.buffer_class(
            observation_space=self._space,
            action_space=env.action_space,
            env=self._envs,
            device="cpu",
            n_envs=num_envs,
            goal_selection_strategy=strategy,
            copy_info_dict=True,
            termination=self.termination,
            **options,
        )

    def add(self, *transition: Any, env_index: int = 0) -> None:
        *values, terminated, truncated, info = transition
        info = {**info, "TimeLimit.truncated": truncated and not terminated}
        self._steps.append((*values, terminated or truncated, info))
        if len(self._steps) == self._num_envs:
            obs, action, reward, next_obs, done, infos = stacked(self._steps)
            self._steps = []
            self.buffer.add(obs, next_obs, action, reward, done, infos)

    def sample(self, batch_size: int) -> dict[str, Any]:
        batch: Any = self.buffer.sample(batch_size)
        arrays = states_of_shape(self._space, batch.observations, batch.next_observations)
        arrays |= {"reward": batch.rewards.numpy()[:, 0], "terminated": batch.dones.numpy()[:, 0]}
        if batch.discounts is not None:
            arrays["discount"] = batch.discounts.numpy().reshape(-1)
        return arrays | {"action": batch.actions.numpy()}

    def end_episode(self, env_index: int = 0) -> None:
        self.buffer.truncate_last_trajectory()

    def save(self, path: str) -> None:
        save_to_pkl(path, self.buffer)

    def load(self, path: str) -> None:
        self.buffer = load_from_pkl(path)
        self.buffer.set_env(self._envs)
