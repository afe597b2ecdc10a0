"""GE5xx: a vector environment can batch the infos without a loss."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers.checker.exceptions import describe
from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import differences, identical, show
from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from her_wrappers.checker.evidence import Evidence

NUM_ENVS = 3
BATCHES = 32


class _InfoReplay(gym.Env[Any, Any]):
    """Returns the given infos, one in each step."""

    observation_space = spaces.Discrete(1)
    action_space = spaces.Discrete(1)

    def __init__(self, infos: Sequence[Any]) -> None:
        self._infos = iter(infos)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, 0.0, False, False, copy_tree(next(self._infos))


@rule(
    "GE501",
    "info-not-batchable",
    "warning",
    meaning="Infos raise an exception or lose data when a vector environment batches them.",
    fix="give each key the same type and shape in all steps, and start no key with an underscore",
    needs=("steps",),
    wrong='info = {"distance": 0}  # later {"distance": 0.5}, which becomes 0 in the batch',
    right='info = {"distance": 0.0}',
)
def info_not_batchable(evidence: Evidence) -> Iterator[Violation]:
    """Batched infos contain the values of the info of each environment."""
    not_dict = next((step for step in evidence.steps if not isinstance(step.info, dict)), None)
    if not_dict is not None:
        yield Violation(show(not_dict.info), "a dict as info", not_dict.place)
        return
    batches = _batches(evidence)
    vector = gym.vector.SyncVectorEnv([partial(_InfoReplay, column) for column in zip(*batches, strict=True)])
    vector.reset()
    for batch in batches:
        try:
            batched = vector.step(np.zeros(NUM_ENVS, dtype=np.int64))[-1]
        except Exception as error:
            yield Violation(describe(error), "infos that a vector environment can batch")
            return
        for i, info in enumerate(batch):
            for key, expected, got in differences(info, _row(batched, info, i), _equal):
                yield Violation(f"{show(got)} in the batch", show(expected), subject=key)


def _batches(evidence: Evidence) -> list[list[dict[str, Any]]]:
    """Choose infos that can be in one batch: infos of random steps, and those at the ends of episodes."""
    rng = np.random.default_rng(evidence.seed)
    infos = [step.info for step in evidence.steps]
    rows = rng.integers(len(infos), size=(BATCHES, NUM_ENVS)).tolist()
    ends = [i for i, step in enumerate(evidence.steps) if step.terminated or step.truncated][:BATCHES]
    return [[infos[i] for i in row] for row in [*rows, *([end, max(end - 1, 0), 0] for end in ends)]]


def _row(batched: Any, info: dict[str, Any], i: int) -> dict[str, Any]:
    """Return row ``i`` of batched infos, with the keys of ``info``."""
    return {
        key: _row(batched[key], value, i) if isinstance(value, dict) else batched[key][i]
        for key, value in info.items()
    }


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.hasobject or b.dtype.hasobject:
        return identical(a.tolist(), b.tolist())
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc" and b.dtype.kind in "fc"))
