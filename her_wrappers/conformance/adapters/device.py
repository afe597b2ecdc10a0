"""Adapter that tests her-toolkit's `DeviceReplayBuffer` with tensors on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from her_wrappers.conformance.adapter import OFFERS
from her_wrappers.conformance.adapters.ours import Ours, buffer_options, stacked
from her_wrappers.data.trees import map_tree
from her_wrappers.replay.device_buffer import DeviceReplayBuffer
from her_wrappers.replay.lanes import SimulatorStep
from her_wrappers.replay.tensors import on_tensors


class OursOnDevice(Ours):
    """Adapter of `DeviceReplayBuffer`; the buffer gets one step of all environments per call."""

    name = "her-toolkit, on a device"
    offers = frozenset(OFFERS) - {"priorities"}
    samples_open_episodes, evicts, ends_all_episodes = True, "steps", True

    def __init__(self, env: Any, *, buffer_size: int, num_envs: int = 1, **options: Any) -> None:
        self._num_envs, self._steps = num_envs, list[tuple[Any, ...]]()
        self._are_new = torch.ones(num_envs, dtype=torch.bool)
        self._options: dict[str, Any] = {
            "compute_reward": on_tensors(env.compute_reward),
            "compute_terminated": on_tensors(env.compute_terminated),
        }
        steps, given = buffer_size // num_envs, buffer_options(**options)
        del given["prioritized"]
        given |= {"steps_per_env": steps, "states_per_env": 2 * steps + 1}  # also for episodes of one step
        self.buffer: Any = DeviceReplayBuffer(
            env.observation_space, env.action_space, num_envs,
            termination=self.termination, **self._options, **given,
        )  # fmt: skip

    def _add_steps(self, steps: list[tuple[Any, ...]]) -> None:
        *columns, infos = stacked(steps)
        obs, action, reward, last, terminated, truncated = map_tree(torch.tensor, tuple(columns))
        if self._are_new.any():
            self.buffer.begin_episodes(obs, self._are_new)
        self._are_new = terminated | truncated
        info = {key: torch.tensor([info[key] for info in infos]) for key in self.buffer.info_keys}
        first = None if self.buffer.can_sample else obs
        # The next call has the first observations of new episodes; until then, the last ones are as good.
        self.buffer.add(SimulatorStep(last, action, reward.float(), terminated, truncated, last, info, first))

    def end_episode(self, env_index: int = 0) -> None:
        self._are_new = torch.ones_like(self._are_new)

    def save(self, path: str) -> None:
        self.buffer.save(path)
        np.save(f"{path}-begins.npy", self._are_new.numpy())

    def load(self, path: str) -> None:
        self.buffer = DeviceReplayBuffer.load(path, **self._options)
        self._are_new = torch.from_numpy(np.load(f"{path}-begins.npy"))
