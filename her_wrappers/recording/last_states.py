"""Last states of episodes in mode SAME_STEP, where ``step`` returns the first state of the next episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from her_wrappers.infos import Where, final_observations
from her_wrappers.recording.values import as_batch
from her_wrappers.spaces import SpaceSpec
from her_wrappers.trees import leaf_arrays
from her_wrappers.user_warning import warn_user

MIN_EQUAL = 3  # last observations before the warning that all equal the next first observations


class LastStates(NamedTuple):
    """The states in which episodes ended."""

    rows: np.ndarray  # (n,) indices of the environments, ascending
    observations: list[np.ndarray]  # the leaves, each (n, ...)
    infos: dict[str, np.ndarray]  # the requested infos, each (n, ...)

    def put(self, found: Mapping[str, Any], rows: np.ndarray, ends: np.ndarray) -> None:
        """Replace the last states and infos of collected episodes, ``found`` (fields of `Episodes`).

        ``rows`` and ``ends``, (m,), are their environments and the numbers of steps up to their ends.
        """
        which = np.searchsorted(rows, self.rows)
        for array, values in zip(leaf_arrays(found["observations"]), self.observations, strict=True):
            array[ends[which] + which] = values
        for key, values in self.infos.items():
            found["infos"][key][ends[which] - 1] = values


def read_last_observations(
    spec: SpaceSpec, infos: Any, rows: np.ndarray, num_envs: int, where: Where
) -> list[np.ndarray]:
    """Return the leaves of the last observations of the environments ``rows``, each (n, ...)."""
    final = final_observations(infos)
    mask = infos.get("_final_obs", True) if isinstance(infos, Mapping) else False
    missing = rows if final is None else rows[~np.broadcast_to(np.asarray(mask), num_envs)[rows]]
    if missing.size:
        raise ValueError(
            f"infos have no final_obs {where(int(missing[0]))}, whose episode ended; "
            "environments with autoreset_mode SAME_STEP must return it"
        )
    if not (isinstance(final, list) or getattr(final, "dtype", None) == np.object_):  # arrays of all rows
        whole = [(leaf, leaf.find(final, "in final_obs")) for leaf in spec]
        return [as_batch(leaf, value, count=num_envs, where=where)[rows] for leaf, value in whole]
    listed = [(leaf, [leaf.find(final[i], where(i)) for i in rows.tolist()]) for leaf in spec]
    return [as_batch(leaf, v, count=len(rows), where=lambda k: where(int(rows[k]))) for leaf, v in listed]


class ReuseWatch:
    """Warns if last observations are lost because the environment reuses its arrays.

    In mode SAME_STEP Gymnasium's vector environments do not copy the last observation before the reset. If
    the environment reuses the array, ``final_obs`` has the first observation of the next episode instead.
    """

    _is_watching = True
    _equal = 0  # number of last observations that were compared

    def compare(self, last: list[np.ndarray], first: list[np.ndarray]) -> None:
        """Compare leaves of last observations with those of the next first ones, and warn at most once."""
        if not self._is_watching:
            return
        self._equal += len(last[0])
        self._is_watching = all(map(np.array_equal, last, first))
        if self._is_watching and self._equal >= MIN_EQUAL:
            self._is_watching = False
            warn_user(
                f"all of the first {self._equal} final_obs equal the first observations of the next "
                "episodes: the environment seems to reuse its arrays, and its last observations are lost; "
                "wrap it in her_wrappers.repairs.CopyObservation, or use AutoresetMode.NEXT_STEP"
            )
