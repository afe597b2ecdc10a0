"""Adapter that tests her-toolkit's TorchRL buffer, `HindsightTensorDictReplayBuffer`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from her_wrappers.conformance.adapter import OFFERS, ReplayAdapter
from her_wrappers.conformance.adapters.ours import buffer_options, states_of_shape
from her_wrappers.integrations.torchrl import HindsightTensorDictReplayBuffer

FRAMES = 16
"""Number of steps of each environment in one call of ``extend``, like ``frames_per_batch`` of a collector."""


class OursForTorchRL(ReplayAdapter):
    """Adapter of `HindsightTensorDictReplayBuffer`; the buffer gets many steps in each call of ``extend``."""

    name = "her-toolkit, for TorchRL"
    offers = frozenset(OFFERS)
    samples_open_episodes, evicts, ends_all_episodes = False, "episodes", True

    def __init__(self, env: Any, *, num_envs: int = 1, **options: Any) -> None:
        self._env, self._num_envs = env, num_envs
        self._gamma = options.get("gamma", 0.99)
        self._steps: list[TensorDict] = []
        self.buffer = HindsightTensorDictReplayBuffer.for_env(env, **buffer_options(**options))

    def add(self, *transition: Any, env_index: int = 0) -> None:
        """Queue a transition; once there are `FRAMES` for each environment, add them all in one call."""
        self._steps.append(as_tensordict(transition))
        if len(self._steps) == self._num_envs * FRAMES:
            self._extend()

    def _extend(self) -> None:
        if self._steps:
            rows = [TensorDict.stack(self._steps[i :: self._num_envs]) for i in range(self._num_envs)]
            self._steps = []
            self.buffer.extend(TensorDict.stack(rows))

    def sample(self, batch_size: int) -> dict[str, Any]:
        self._extend()
        batch: Any = self.buffer.sample(batch_size)
        arrays = as_arrays(batch, self._env.observation_space)
        if "priority_weight" in batch:
            arrays["weight"] = batch["priority_weight"].numpy()
        if "steps_to_next_obs" in batch:
            steps = batch["steps_to_next_obs"].numpy()[:, 0]
            arrays["discount"] = np.where(arrays["terminated"], 0, self._gamma**steps).astype(np.float32)
        return arrays | {"index": batch["index"].numpy()}

    def end_episode(self, env_index: int = 0) -> None:
        self._extend()
        self.buffer.truncate_open_episodes()

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> None:
        columns = {"index": torch.as_tensor(index), "td_error": torch.as_tensor(priorities)}
        self.buffer.update_tensordict_priority(TensorDict(columns, batch_size=[len(index)]))

    def save(self, path: str) -> None:
        self.end_episode()  # `dumps` leaves open episodes out
        self.buffer.dumps(path)

    def load(self, path: str) -> None:
        self._steps = []
        self.buffer.loads(path)


def as_tensordict(transition: tuple[Any, ...]) -> TensorDict:
    """Return a transition as a TensorDict of shape (), in the form that TorchRL's collectors return."""
    obs, action, reward, next_obs, terminated, truncated, info = transition
    flags = {"done": terminated or truncated, "terminated": terminated, "truncated": truncated}
    states, next_states = (
        {key: torch.as_tensor(np.array(value)) for key, value in each.items()} for each in (obs, next_obs)
    )
    after = {
        **next_states,
        "reward": torch.tensor([reward]),
        **{key: torch.tensor([flag]) for key, flag in flags.items()},
        "cost": torch.tensor(info["cost"], dtype=torch.float64),
    }
    step = {**states, "action": torch.as_tensor(np.array(action)), "next": after}
    return TensorDict(step, batch_size=[])


def as_arrays(batch: Any, space: Any) -> dict[str, Any]:
    """Return a TensorDict of shape (B,) as the dict of arrays that `ReplayAdapter.sample` describes."""
    arrays = states_of_shape(space, batch, batch["next"])
    arrays |= {key: batch["next", key].numpy()[:, 0] for key in ("reward", "terminated", "truncated")}
    return arrays | {"action": batch["action"].numpy()}
