"""OpenVectorEpisodes: the episodes of N environments to which `HindsightReplayBuffer.add` still adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from her_wrappers.infos import final_observations
from her_wrappers.recording.last_states import ReuseWatch
from her_wrappers.recording.vector_episode_accumulator import VectorEpisodeAccumulator
from her_wrappers.trees import map_tree
from her_wrappers.user_warning import warn_user

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.trees import Tree

NOT_CONTINUED = (
    "; pass terminated or truncated where an episode ends or its goal is changed from outside, or call "
    "truncate_open_episode() after an interruption"
)


class OpenVectorEpisodes(VectorEpisodeAccumulator):
    """The open episodes of N environments, for transitions that have both ``obs`` and ``next_obs``.

    Args:
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        info_keys: Keys of the infos to record.
        num_envs: Number of environments, N.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        info_keys: Sequence[str],
        num_envs: int,
    ) -> None:
        super().__init__(
            observation_space, action_space, num_envs, AutoresetMode.DISABLED, info_keys=info_keys
        )
        self._info_keys = info_keys
        self._reuse_watch = ReuseWatch(is_watching=False)  # next_obs may be the last observations
        self._has_just_ended: np.ndarray | None = None  # (N,) bool
        self._may_warn = True

    @property
    def num_envs(self) -> int:
        """Number of environments, N."""
        return self._num_envs

    @property
    def lengths(self) -> np.ndarray:
        """(N,) int64, number of steps of each environment's open episode; -1 if it has none."""
        return self._state.lengths

    def add(  # noqa: PLR0917 - a transition, in the order in which Gymnasium's step returns it
        self,
        obs: Tree,
        action: Tree,
        rewards: np.ndarray,
        next_obs: Tree,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: Any,
        skipped: np.ndarray | None,
    ) -> None:
        """Add one transition of each environment that is not skipped.

        Args:
            obs: (N, ...) observations; in an open episode, equal to the previous ``next_obs``.
            action: (N, ...) actions.
            rewards: (N,) rewards.
            next_obs: (N, ...) next observations. If ``infos`` has last observations (``final_obs`` or
                ``terminal_observation``), these are the last states of the episodes that end, and their
                ``next_obs`` is ignored.
            terminated: (N,) bool.
            truncated: (N,) bool.
            infos: A list of N dicts, one dict of arrays as Gymnasium's vector environments return, or None.
            skipped: (N,) bool, environments whose row is a reset and not a transition: their ``next_obs``
                begins the next episode. None: all rows are transitions.

        Raises:
            ValueError: A value does not fit its space, an info is missing, ``infos`` has another format,
                ``obs`` is not the last state of an open episode, or ``skipped`` is True for an episode that
                has steps. Nothing is added.
        """
        has_steps = self.lengths > 0
        if skipped is None:
            self._warn_of_resets(obs)
            skipped = np.zeros(self._num_envs, bool)
        if (skipped & has_steps).any():
            i = int((skipped & has_steps).argmax())
            raise ValueError(
                f"skip must be False during an episode, got True for environment {i}, whose episode is open"
            )
        infos = self._as_columns(infos)
        self._require_continuation(obs, np.flatnonzero(has_steps))
        self.begin(np.flatnonzero(~has_steps & ~skipped), obs, {})
        self.act(action)
        is_reset = final_observations(infos) is not None
        self._mode = AutoresetMode.SAME_STEP if is_reset else AutoresetMode.DISABLED
        # A skipped row begins an episode and adds no step, like the reset after an end in mode NEXT_STEP.
        self._state = self._state._replace(is_ended=skipped)
        self.observe(next_obs, rewards, terminated & ~skipped, truncated & ~skipped, infos)
        ended = (terminated | truncated) & ~skipped
        self._has_just_ended = ended if ended.any() and not is_reset else None

    def copy(self) -> Episodes | None:
        """Return copies of the open episodes that have steps, as truncated, or None; they stay open."""
        none = np.zeros(self._num_envs, bool)
        return self._collect(self._state, np.arange(self._num_envs), none, ~none)

    def resume(self, lengths: np.ndarray, episodes: Episodes) -> None:
        """Open the episodes that `copy` returned.

        Args:
            lengths: (N,) integers, number of steps of each environment's episode; at most 0 if it has none.
            episodes: The open episodes that have steps.

        Raises:
            ValueError: The episodes do not have these lengths, or do not fit the spaces.
        """
        rows = np.flatnonzero(lengths > 0)
        if not np.array_equal(lengths[rows], episodes.lengths):
            raise ValueError(f"expected episodes of {lengths[rows]} steps, got {episodes.lengths}")
        longest = int(lengths.max())
        first = longest - lengths[rows]

        def padded(tree: Tree, ends: np.ndarray) -> Tree:
            """Return (moments, N, ...) arrays in which all episodes end at the last moment."""

            def pad(leaf: np.ndarray) -> np.ndarray:
                blocks = np.split(leaf, ends[1:-1])
                whole = np.zeros((max(map(len, blocks)), self._num_envs, *leaf.shape[1:]), leaf.dtype)
                for i, block in zip(rows, blocks, strict=True):
                    whole[len(whole) - len(block) :, i] = block
                return whole

            return map_tree(pad, tree)

        def at(t: int, tree: Tree) -> Tree:
            return map_tree(lambda leaf: leaf[t], tree)

        states = padded(episodes.observations, episodes.ends + np.arange(len(episodes.ends)))
        steps = padded((episodes.actions, episodes.rewards, episodes.infos), episodes.ends)
        no = np.zeros(self._num_envs, bool)
        for t in range(longest):
            actions, rewards, infos = at(t, steps)
            self.begin(rows[first == t], at(t, states), {})
            self.act(actions)
            self.observe(at(t + 1, states), rewards, no, no, infos)

    def _require_continuation(self, obs: Tree, rows: np.ndarray) -> None:
        """Raise ValueError unless ``obs`` equals the last states of the open episodes of ``rows``."""
        for leaf, was, given, same in self._compare(obs, rows):
            if not same.all():
                k = int(same.argmin())
                raise ValueError(
                    f"obs must equal the previous next_obs: {leaf.name} is {given[k]}, was {was[k]} "
                    f"{self._where(0)(rows[k])}{NOT_CONTINUED}"
                )

    def _warn_of_resets(self, obs: Tree) -> None:
        """Warn if a row begins in the last state of an ended episode: it is a reset and not a transition."""
        if not self._may_warn or self._has_just_ended is None:
            return
        rows = np.flatnonzero(self._has_just_ended)
        still = np.logical_and.reduce([same for *_, same in self._compare(obs, rows)])
        if still.any():
            self._may_warn = False
            warn_user(
                f"the transition of environment {rows[still.argmax()]} begins in the last state of its "
                "previous episode; in autoreset mode NEXT_STEP such a row is a reset and not a transition: "
                "pass skip, an array that is True for the environments whose episode ended at the previous "
                "step"
            )

    def _compare(self, obs: Tree, rows: np.ndarray) -> list[tuple[Any, Any, Any, np.ndarray]]:
        """Return each leaf, its recorded last values, those in ``obs``, and which are equal, (n,) bool."""
        columns, slot = self._ring.observations, self._state.now % self._ring.capacity
        compared = []
        values = columns.check(obs, self._where(0))
        present = columns.take(slot * self._num_envs + rows)
        for leaf, was, value in zip(columns.spec, present, values, strict=True):
            given = value[rows]
            same = (was == given) | ((was != was) & (given != given))  # noqa: PLR0124 - both are NaN
            compared.append((leaf, was, given, same.all(axis=tuple(range(1, same.ndim)))))
        return compared

    def _as_columns(self, infos: Any) -> Any:
        """Return infos in Gymnasium's format, also those that are a list of dicts (Stable-Baselines3)."""
        if isinstance(infos, Mapping) or infos is None:
            return infos or {}
        if not isinstance(infos, Sequence) or len(infos) != self._num_envs:
            length = f" of length {len(infos)}" if isinstance(infos, Sized) else ""
            raise ValueError(
                f"info must be a list of {self._num_envs} dicts, or one dict of arrays, "
                f"got {type(infos).__name__}{length}"
            )
        columns: dict[str, Any] = {}
        for key in self._info_keys:
            columns |= _column(key, [info.get(key) for info in infos], [key in info for info in infos])
        last = [info.get("terminal_observation") for info in infos]
        has_last = [each is not None for each in last]
        if any(has_last):
            columns = {**columns, **_column("final_obs", last, has_last), "final_info": columns}
        return columns


def _column(key: str, values: Sequence[Any], present: Sequence[bool]) -> dict[str, np.ndarray]:
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return {key: column, f"_{key}": np.array(present)}
