"""Last states of episodes in mode SAME_STEP, and ReuseWatch: a warning if environments overwrite them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from her_wrappers.data.infos import InfoBatch, Where, final_mask, final_observations
from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.data.trees import NUMBERS, leaf_arrays
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.values import as_batch
from her_wrappers.support.user_warning import warn_user

MIN_JUMPS = 3  # a warning appears if a value seems overwritten in at least this number of episodes
MAX_EPISODES = 50  # number of episodes that are examined


def read_last_observations(
    spec: SpaceSpec, infos: Any, envs: np.ndarray, num_envs: int, where: Where
) -> list[np.ndarray]:
    """Return the last observations of the n environments ``envs``: a list of leaves, each (n, ...)."""
    final = final_observations(infos)
    missing = envs[~final_mask(infos, num_envs)[envs]]
    if missing.size:
        raise ValueError(
            f"infos have no 'final_obs' {where(int(missing[0]))}, whose episode ended; in mode SAME_STEP, "
            "step() must return the last observations in infos['final_obs']. If the environment does not "
            "reset itself in the step that ends an episode, correct metadata['autoreset_mode']"
        )
    if not (isinstance(final, list) or getattr(final, "dtype", None) == np.object_):  # arrays of all rows
        whole = [(leaf, leaf.find(final, "in final_obs")) for leaf in spec]
        return [as_batch(leaf, value, count=num_envs, where=where)[envs] for leaf, value in whole]
    listed = [(leaf, [leaf.find(final[i], where(i)) for i in envs.tolist()]) for leaf in spec]
    return [as_batch(leaf, v, count=len(envs), where=lambda k: where(int(envs[k]))) for leaf, v in listed]


class ReuseWatch:
    """Warns if an environment overwrites the last state of an episode with the first state of the next one.

    This happens if a vector environment resets in the step that ends an episode, and reuses an array without
    copying it. An array of the observation counts as overwritten if (1) in all episodes, its last value
    equals the first value of the next episode, and (2) in at least half of the episodes, it changes more in
    the last step than in any other step. Condition 2 excludes arrays that a reset never changes.
    """

    def __init__(self, spec: SpaceSpec, repair: str = "") -> None:
        self.is_watching = True  # until the warning, or MAX_EPISODES
        self._leaves = spec.leaves
        self._repair = repair  # end of the message
        self._ended: dict[int, Episode] = {}  # by environment
        self._count = 0  # number of examined episodes
        self._cleared: set[str] = set()  # names of leaves that a reset did not overwrite
        self._largest: dict[str, float] = {}  # largest change of each leaf in a step before the last one
        self._jumps: Counter[str] = Counter()

    def ended(self, envs: Iterable[int], episodes: Sequence[Episode]) -> None:
        """Store the episodes that ended in the environments ``envs``, for the comparison in `began`."""
        if self.is_watching:
            self._ended = dict(zip(envs, episodes, strict=True))

    def began(
        self, envs: Iterable[int], states: Sequence[np.ndarray], infos: Mapping[str, InfoBatch] | None = None
    ) -> None:
        """Compare last states with first ``states``, leaves (N, ...), and ``infos`` of the next episodes."""
        ended, self._ended = self._ended, {}
        envs = [i for i in envs if i in ended]
        if not envs:
            return
        self._count += len(envs)
        for i in envs:
            for leaf, rows, first in zip(
                self._leaves, leaf_arrays(ended[i].observations), states, strict=True
            ):
                is_goal = leaf.path[:1] in {("achieved_goal",), ("desired_goal",)}
                self._compare(leaf.name, rows, first[i], is_goal)
            for key, batch in (infos or {}).items():
                if batch.present[i]:
                    self._compare(f"info {key!r}", ended[i].infos[key], batch.values[i], False)
        lost = any(jumps >= max(MIN_JUMPS, self._count / 2) for jumps in self._jumps.values())
        if lost:
            warn_user(
                f"in all {self._count} episodes, the last value of {', '.join(self._jumps)} equals the first "
                "value of the next episode: the environment seems to reuse its arrays, so that a reset "
                "overwrites the last state; wrap each environment in her_wrappers.repairs.CopyObservation"
                + self._repair
            )
        self.is_watching = not lost and self._count < MAX_EPISODES

    def _compare(self, name: str, rows: np.ndarray, first: np.ndarray, is_goal: bool) -> None:
        if name in self._cleared or rows.dtype.kind not in NUMBERS:
            return
        if not np.array_equal(rows[-1], first, equal_nan=rows.dtype.kind == "f"):
            self._cleared.add(name)
            self._jumps.pop(name, None)
            return
        with np.errstate(all="ignore"):  # infinite values
            changes = np.abs(np.diff(rows.reshape(len(rows), -1).astype(np.float64), axis=0)).sum(axis=1)
        largest = max(self._largest.get(name, 0.0), *changes[:-1].tolist(), 0.0)
        self._largest[name] = largest
        # A goal may be constant in an episode; other values that change only at its end can be counters.
        if len(changes) > 1 and changes[-1] > 1.5 * largest and (largest > 0 or is_goal):
            self._jumps[name] += 1
