"""Last states: how an episode ended, where the environment shows the first state of the next one already.

In Gymnasium's mode SAME_STEP ``infos["final_obs"]`` has the last observations, as an array of dicts
(Gymnasium's own) or a dict of arrays (others), and ``infos["final_info"]`` the last infos.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.recording.batch_columns import as_batch
from her_wrappers.user_warning import warn_user

if TYPE_CHECKING:
    from her_wrappers.recording.batch_columns import Where
    from her_wrappers.recording.leaves import Leaves

ENOUGH_ALIKE = 3
"""So many last observations that all equal the first of the next episode are no accident."""


class LastStates(NamedTuple):
    """The states in which episodes ended.

    Attributes:
        rows: (n,) the environments, in rising order.
        observations: The leaves, each (n, ...).
        infos: The infos asked for, each (n, ...).
    """

    rows: np.ndarray
    observations: list[np.ndarray]
    infos: dict[str, np.ndarray]


def read_last_observations(
    leaves: Leaves, infos: Any, rows: np.ndarray, *, num_envs: int, where: Where
) -> list[np.ndarray]:
    """Return the leaves of the last observations, each (n, ...).

    Args:
        leaves: The leaves of the observation space.
        infos: Of the step at which episodes ended.
        rows: (n,) the environments in which they did.
        num_envs: Number of environments, N.
        where: Where each environment is.

    Raises:
        ValueError: One is missing, or does not fit its space.
    """
    final = infos.get("final_obs") if isinstance(infos, Mapping) else None
    there = np.asarray(infos.get("_final_obs", True)) if isinstance(infos, Mapping) else np.array(False)
    numbers = rows.tolist()
    missing = [i for i in numbers if not np.broadcast_to(there, num_envs)[i]]
    if final is None or missing:
        raise ValueError(
            f"infos have no final_obs {where(missing[0] if missing else numbers[0])}, whose episode ended; "
            "autoreset_mode SAME_STEP promises it"
        )
    if not _is_one_by_one(final):
        whole = ((leaf, leaf.find(final, "in final_obs")) for leaf in leaves)
        return [as_batch(leaf, value, count=num_envs, where=where)[rows] for leaf, value in whole]
    each = [final[i] for i in numbers]

    def where_of(k: int) -> str:
        return where(numbers[k])

    return [
        as_batch(
            leaf,
            [leaf.find(tree, where_of(k)) for k, tree in enumerate(each)],
            count=len(each),
            where=where_of,
        )
        for leaf in leaves
    ]


def _is_one_by_one(final: Any) -> bool:
    return isinstance(final, list) or (isinstance(final, np.ndarray) and final.dtype == np.object_)


class ReuseWatch:
    """Warns where last observations are lost, since the environment reuses its arrays for the next episode.

    Gymnasium's vector environments hand out an environment's last observation after they have reset it, and
    do not copy it before: in an array that the environment uses again stands the first observation of the
    next episode.
    """

    def __init__(self) -> None:
        self._is_watching = True
        self._alike = 0

    def look(self, last: list[np.ndarray], first: list[np.ndarray]) -> None:
        """Compare last observations with the first of the next episodes, both (n, ...) leaves."""
        if not self._is_watching:
            return
        self._alike += len(last[0])
        self._is_watching = all(map(np.array_equal, last, first))
        if self._is_watching and self._alike >= ENOUGH_ALIKE:
            self._is_watching = False
            warn_user(
                f"all of the first {self._alike} final_obs equal the first observations of the next "
                "episodes: the environment seems to reuse its arrays, and its last observations are lost; "
                "wrap it in her_wrappers.adapters.CopyObservation, or use AutoresetMode.NEXT_STEP"
            )
