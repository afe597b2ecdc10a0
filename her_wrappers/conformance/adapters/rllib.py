"""Adapter that tests her-toolkit's `HerEpisodeReplayBuffer` by the calls that RLlib's algorithms make."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from her_wrappers.conformance.adapter import OFFERS, ReplayAdapter
from her_wrappers.conformance.adapters.ours import buffer_options, states
from her_wrappers.integrations.rllib import ColumnsFromBuffer
from her_wrappers.integrations.rllib_buffer import HerEpisodeReplayBuffer


class OursForRLlib(ReplayAdapter):
    """Adapter of `HerEpisodeReplayBuffer`; adds each step as an episode chunk like those of env runners.

    Most values of a batch come from the learner connector. Observations, goals and indices come from the
    buffer's ``last_batch``, since the connector converts or omits them.
    """

    name = "her-toolkit, for RLlib"
    offers = frozenset(OFFERS) - {"discrete"}  # the connector would make one-hot vectors of 2**44 numbers
    samples_open_episodes, evicts = False, "episodes"

    def __init__(self, env: Any, *, buffer_size: int, n_steps: int = 1, **options: Any) -> None:
        self._n_steps, self._gamma = n_steps, options.get("gamma", 0.99)
        self._open: dict[int, SingleAgentEpisode] = {}
        self._columns = ColumnsFromBuffer()
        self.buffer = HerEpisodeReplayBuffer(
            env, capacity=buffer_size, n_step=n_steps, **buffer_options(**options)
        )

    def add(self, *transition: Any, env_index: int = 0) -> None:
        # Env runners get copies from Gymnasium's vector environments.
        obs, action, reward, next_obs, terminated, truncated, info = copy.deepcopy(transition)
        chunk = self._open.pop(env_index, None)
        if chunk is None:
            chunk = SingleAgentEpisode()
            chunk.add_env_reset(obs)
        chunk.add_env_step(next_obs, action, reward, info, terminated=terminated, truncated=truncated)
        if not chunk.is_done:
            self._open[env_index] = chunk.cut(len_lookback_buffer=1)
        self.buffer.add([chunk.to_numpy()])

    def sample(self, batch_size: int) -> dict[str, Any]:
        transitions = self.buffer.sample(batch_size, n_step=self._n_steps, gamma=self._gamma)
        columns = self._columns(rl_module=None, batch={}, episodes=transitions)
        batch: Any = self.buffer.last_batch
        return {
            **states(batch),
            "action": columns["actions"],
            "reward": columns["rewards"],
            "terminated": columns["terminateds"],
            "truncated": columns["truncateds"],
            "discount": self._gamma ** columns["n_step"] * ~columns["terminateds"],
            "weight": columns["weights"],
            "index": batch.index,
        }

    def end_episode(self, env_index: int = 0) -> None:
        """Begin another episode at the next step, as after a restart of the env runners."""
        self._open.pop(env_index)

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> None:
        """Set priorities by index; the buffer's own ``update_priorities`` is only for the last batch."""
        self.buffer.her_buffer.update_priorities(index, priorities)

    def save(self, path: str) -> None:
        Path(path).write_bytes(pickle.dumps(self.buffer.get_state()))
        self.load(path)  # `get_state` ends the open episodes

    def load(self, path: str) -> None:
        self._open = {}
        self.buffer.set_state(pickle.loads(Path(path).read_bytes()))
