"""Adapter that tests her-toolkit's `HindsightReplayBuffer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from her_wrappers.conformance.adapter import OFFERS, ReplayAdapter
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.priorities import Priority

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.conformance.oracle import Eviction


class Ours(ReplayAdapter):
    """Adapter of `HindsightReplayBuffer`; the buffer gets one step of each environment per call."""

    name = "her-toolkit"
    offers = frozenset(OFFERS)
    samples_open_episodes, ends_all_episodes = False, True
    evicts: ClassVar[Eviction | None] = "episodes"

    def __init__(self, env: Any, *, num_envs: int = 1, **options: Any) -> None:
        self._env, self._num_envs = env, num_envs
        self._steps: list[tuple[Any, ...]] = []
        options = buffer_options(**options)
        self.buffer = HindsightReplayBuffer.for_env(env, termination=self.termination, **options)

    def add(self, *transition: Any, env_index: int = 0) -> None:
        self._steps.append(transition)
        if len(self._steps) == self._num_envs:
            self._add_steps(self._steps)
            self._steps = []

    def _add_steps(self, steps: list[tuple[Any, ...]]) -> None:
        self.buffer.add(*(stacked(steps) if len(steps) > 1 else steps[0]))

    def sample(self, batch_size: int) -> dict[str, Any]:
        batch = self.buffer.sample(batch_size).to_numpy()
        return {
            **states(batch),
            "action": batch.actions,
            "reward": batch.rewards,
            "terminated": batch.terminations,
            "truncated": batch.truncations,
            "discount": batch.discounts,
            "index": batch.index,
            "weight": batch.weights,
        }

    def end_episode(self, env_index: int = 0) -> None:
        self.buffer.truncate_open_episode()

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_priorities(index, priorities)

    def save(self, path: str) -> None:
        self.buffer.save(path)

    def load(self, path: str) -> None:
        self.buffer = HindsightReplayBuffer.load(path, self._env)


def buffer_options(
    *, strategy: str, max_episode_steps: int, prioritized: bool = False, **options: Any
) -> dict[str, Any]:
    """Convert the options of an adapter to arguments of our buffers; drop ``max_episode_steps``."""
    priorities = Priority() if prioritized else None
    return {"goal_selection_strategy": strategy, "info_keys": ("cost",), "prioritized": priorities, **options}


def states(batch: Any) -> dict[str, Any]:
    """Return the observations and next observations of a `Batch`, named as in `ReplayAdapter.sample`."""
    return {**batch.observations, **{f"next_{key}": each for key, each in batch.next_observations.items()}}


def states_of_shape(space: Any, observations: Any, next_observations: Any) -> dict[str, Any]:
    """Return one dict of (B, *shape in ``space``) arrays; next observations have the keys ``next_...``."""
    return {
        prefix + key: each[key].numpy().reshape(-1, *space[key].shape)
        for prefix, each in (("", observations), ("next_", next_observations))
        for key in space
    }


def stacked(steps: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return N transitions as one transition with a leading axis N; its infos are a list."""
    *columns, infos = zip(*steps, strict=True)
    arrays = [
        {key: np.stack([each[key] for each in column]) for key in column[0]}
        if isinstance(column[0], dict)
        else np.stack(column)
        for column in columns
    ]
    return [*arrays, list(infos)]
