"""Last states of episodes in mode SAME_STEP, where ``step`` returns the first state of the next episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.infos import final_observations
from her_wrappers.recording.batch_columns import as_batch
from her_wrappers.user_warning import warn_user

if TYPE_CHECKING:
    from her_wrappers.infos import Where
    from her_wrappers.spaces import SpaceSpec

MIN_EQUAL = 3
"""Minimum number of last observations before the warning that all equal the next first observations."""


class LastStates(NamedTuple):
    """The states in which episodes ended.

    Attributes:
        rows: (n,) indices of the environments, ascending.
        observations: The leaves, each (n, ...).
        infos: The requested infos, each (n, ...).
    """

    rows: np.ndarray
    observations: list[np.ndarray]
    infos: dict[str, np.ndarray]


def read_last_observations(
    spec: SpaceSpec, infos: Any, rows: np.ndarray, *, num_envs: int, where: Where
) -> list[np.ndarray]:
    """Return the leaves of the last observations, each (n, ...).

    Args:
        spec: The leaves of the observation space.
        infos: Infos of the step at which episodes ended.
        rows: (n,) indices of the environments of these episodes.
        num_envs: Number of environments, N.
        where: Function that describes an environment and its step, for messages.

    Raises:
        ValueError: A last observation is missing, or does not fit its space.
    """
    final = final_observations(infos)
    mask = infos.get("_final_obs", True) if isinstance(infos, Mapping) else False
    present = np.broadcast_to(np.asarray(mask), num_envs)
    numbers = rows.tolist()
    missing = [i for i in numbers if not present[i]]
    if final is None or missing:
        raise ValueError(
            f"infos have no final_obs {where(missing[0] if missing else numbers[0])}, whose episode ended; "
            "environments with autoreset_mode SAME_STEP must return it"
        )
    if not (isinstance(final, list) or getattr(final, "dtype", None) == np.object_):
        whole = ((leaf, leaf.find(final, "in final_obs")) for leaf in spec)
        return [as_batch(leaf, value, count=num_envs, where=where)[rows] for leaf, value in whole]

    def where_of(k: int) -> str:
        return where(numbers[k])

    return [
        as_batch(
            leaf,
            [leaf.find(final[i], where(i)) for i in numbers],
            count=len(numbers),
            where=where_of,
        )
        for leaf in spec
    ]


class ReuseWatch:
    """Warns if last observations are lost because the environment reuses its arrays.

    In mode SAME_STEP Gymnasium's vector environments do not copy the last observation before the reset. If
    the environment reuses the array, ``final_obs`` has the first observation of the next episode instead.

    Args:
        is_watching: Whether `compare` compares anything.
    """

    def __init__(self, *, is_watching: bool = True) -> None:
        self._is_watching = is_watching
        self._equal = 0

    def compare(self, last: list[np.ndarray], first: list[np.ndarray]) -> None:
        """Compare last observations with the first observations of the next episodes, and warn at most once.

        Args:
            last: Leaves of the last observations, each (n, ...).
            first: Leaves of the first observations of the next episodes, each (n, ...).
        """
        if not self._is_watching:
            return
        self._equal += len(last[0])
        self._is_watching = all(map(np.array_equal, last, first))
        if self._is_watching and self._equal >= MIN_EQUAL:
            self._is_watching = False
            warn_user(
                f"all of the first {self._equal} final_obs equal the first observations of the next "
                "episodes: the environment seems to reuse its arrays, and its last observations are lost; "
                "wrap it in her_wrappers.adapters.CopyObservation, or use AutoresetMode.NEXT_STEP"
            )
