"""EpisodeStorage: the memory of a replay buffer. It stores complete episodes and gathers their steps.

An episode of T steps is T + 1 records, one a state: what was seen there, the action taken, and its place in
the episode. No state is stored twice; the next observation of a step is the record behind it. Achieved goals
stand in a column of their own, because relabeling picks them from places where nothing else is read; an
observation that is the achieved goal stands there alone. What stays the same for long, the desired goal and
how the episode ended, is stored once for as long as it does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from her_wrappers.replay.layout import SpaceLayout
from her_wrappers.replay.ring import Ring
from her_wrappers.trees import leaf_at

if TYPE_CHECKING:
    from her_wrappers.recording.episode import Episode
    from her_wrappers.replay.infos import InfoLayout
    from her_wrappers.trees import Path, Tree

GOALS = ("achieved_goal", "desired_goal")

FIRST_SEGMENTS = 64
"""Segments there is room for before their ring grows."""


@dataclass(frozen=True, eq=False)
class EncodedEpisode:
    """An episode as it is stored, one record a state: T + 1 of each kind."""

    records: np.ndarray
    achieved: np.ndarray
    segments: np.ndarray  # desired goal and end; consecutive ones that are alike become one
    infos: np.ndarray | None = None  # where any are kept

    def __len__(self) -> int:
        """Return the number of steps, T."""
        return len(self.records) - 1


@dataclass(frozen=True, eq=False)
class Steps:
    """B steps copied out of a storage, partly as records, whose fields are views.

    Attributes:
        positions: (B,) where they stand.
        records: (B,) their states and what was done there.
        next_records: (B,) the states after.
        achieved: (B,) goals achieved in the states.
        next_achieved: (B,) goals achieved in the states after.
        desired: (B,) desired goals in the states.
        next_desired: (B,) desired goals in the states after.
        t: (B,) steps of their episodes.
        length: (B,) numbers of steps of these episodes.
        reward: (B,) float32.
        terminated: (B,) bool.
        truncated: (B,) bool.
        other_reason: (B,) bool, whether the step terminated for a reason that is not its goal.
    """

    positions: np.ndarray
    records: np.ndarray
    next_records: np.ndarray
    achieved: np.ndarray
    next_achieved: np.ndarray
    desired: np.ndarray
    next_desired: np.ndarray
    t: np.ndarray
    length: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    other_reason: np.ndarray


class EpisodeStorage:
    """Complete episodes, first in, first out, at most ``buffer_size`` steps of them.

    Args:
        observation_space: Dict with the goal keys, of one environment.
        action_space: Actions of one environment.
        buffer_size: Steps to hold.
        infos: The infos to keep.

    Raises:
        MemoryError: There is not so much memory.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        buffer_size: int,
        infos: InfoLayout,
    ) -> None:
        seen = {key: part for key, part in observation_space.items() if key not in GOALS}
        self._keys = list(observation_space)
        self._seen = SpaceLayout("seen", spaces.Dict(seen))
        self._action = SpaceLayout("action", action_space)
        self.goal = SpaceLayout("goal", observation_space["achieved_goal"])
        self._sharable = _leaves_like_goal(self._seen, self.goal)
        self._buffer_size = buffer_size
        self._infos = infos
        self._achieved_dtype = np.dtype(self.goal.fields(), align=True)
        self._segment_dtype = np.dtype(
            [
                *self.goal.fields(),
                ("length", np.int32),
                ("terminated", np.bool_),
                ("truncated", np.bool_),
                ("other_reason", np.bool_),
            ],
            align=True,
        )
        self.first_index = 0
        self._begin()

    def clear(self) -> None:
        """Drop all episodes and allocate anew; indices go on."""
        self.first_index += self.num_steps
        self._begin()

    def _begin(self) -> None:
        self._shared: set[Path] = set()  # leaves of what is seen that are the achieved goal
        self._allocate_states()
        self._segments = Ring(FIRST_SEGMENTS, segment=self._segment_dtype)
        self._steps = Ring(self._buffer_size, position=np.int32 if self._buffer_size < 2**29 else np.int64)
        self._episodes: deque[tuple[int, int]] = deque()  # steps and segments of each

    @property
    def num_steps(self) -> int:
        """Steps stored."""
        return self._steps.size

    @property
    def num_episodes(self) -> int:
        """Episodes stored."""
        return len(self._episodes)

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._states.nbytes + self._segments.nbytes + self._steps.nbytes

    def encode(self, episode: Episode) -> EncodedEpisode:
        """Bring an episode into the form in which it is stored.

        Raises:
            ValueError: It lies outside the spaces, lacks an info, or has a reward that is not finite.
        """
        length = len(episode)
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            rewards = np.asarray(episode.rewards).astype(np.float32)
        if not np.isfinite(rewards).all():
            t = np.flatnonzero(~np.isfinite(rewards))[0]
            raise ValueError(f"rewards must be finite as float32, got {episode.rewards[t]} at step {t}")
        seen = self._seen.check(episode.observations, length + 1, "observations")
        actions = self._action.check(episode.actions, length, "actions", rounding=True)
        achieved, desired = (self._check_goals(episode, key) for key in GOALS)
        self._share({path for path in self._sharable if np.array_equal(seen[path], achieved[()])})

        # zeros, so that padding bytes are alike and records can be compared as bytes
        records = np.zeros(length + 1, self._record_dtype)
        achieved_records = np.zeros(length + 1, self._achieved_dtype)
        segments = np.zeros(length + 1, self._segment_dtype)
        self._seen.write(records, seen, without=self._shared)
        self._action.write(records[:-1], actions)
        self.goal.write(achieved_records, achieved)
        self.goal.write(segments, desired)
        records["reward"][:-1] = rewards
        records["t"] = np.arange(length + 1)
        segments["length"] = length
        segments["terminated"] = episode.terminated
        segments["truncated"] = episode.truncated
        infos = self._infos.encode(episode.infos, length) if self._infos.keys else None
        return EncodedEpisode(records, achieved_records, segments, infos)

    def append(self, episode: EncodedEpisode) -> None:
        """Store an episode of at most ``buffer_size`` steps, evicting the oldest ones as far as needed."""
        length = len(episode.records) - 1
        while self._steps.size + length > self._buffer_size:
            self._evict()
        as_bytes = _as_bytes(episode.segments)
        begins = np.append(True, (as_bytes[1:] != as_bytes[:-1]).any(axis=1))
        segments = episode.segments[begins]
        self._make_room(length + 1, len(segments))
        episode.records["segment"] = self._segments.append(segment=segments)[np.cumsum(begins) - 1]
        columns = {"record": episode.records, "achieved": episode.achieved}
        if episode.infos is not None:
            if not self._episodes:
                self._infos.dtype = episode.infos.dtype
                self._states.add_column("info", episode.infos.dtype)
            columns["info"] = episode.infos
        positions = self._states.append(**columns)
        self._steps.append(position=positions[:-1])
        self._episodes.append((length, len(segments)))

    def take(self, offsets: np.ndarray, num_relabeled: int) -> Steps:
        """Copy steps out.

        Args:
            offsets: (B,) which steps, counted from the oldest stored.
            num_relabeled: So many first rows get no next desired goals, since they are to get others.
        """
        positions = self._steps.take("position", self._steps.start + offsets)
        following = positions + 1
        records = self._states.take("record", positions)
        next_records = self._states.take("record", following)
        segments = self._segments.take("segment", records["segment"])
        next_desired = np.empty(len(offsets), self._segment_dtype)
        if num_relabeled < len(offsets):
            next_desired[num_relabeled:] = self._segments.take(
                "segment", next_records["segment"][num_relabeled:]
            )
        t, length = records["t"], segments["length"]
        last = t + 1 == length
        return Steps(
            positions=positions,
            records=records,
            next_records=next_records,
            achieved=self._states.take("achieved", positions),
            next_achieved=self._states.take("achieved", following),
            desired=segments,
            next_desired=next_desired,
            t=t,
            length=length,
            reward=records["reward"],
            terminated=segments["terminated"] & last,
            truncated=segments["truncated"] & last,
            other_reason=segments["other_reason"] & last,
        )

    def infos_at(self, positions: np.ndarray) -> np.ndarray | None:
        """Return the infos that came with the steps at ``positions``, as records, or None."""
        return self._states.take("info", positions) if self._infos.keys else None

    def states_after(self, offsets: np.ndarray) -> np.ndarray:
        """Return the positions of the states that steps led to; steps are counted from the oldest stored."""
        return self._steps.take("position", self._steps.start + offsets) + 1

    def set_goals(self, steps: Steps, sources: np.ndarray) -> None:
        """Give the first steps the goals that were achieved in the states at ``sources``."""
        goals, rows = self._states.take("achieved", sources), slice(len(sources))
        for field in goals.dtype.names or ():
            steps.desired[field][rows] = goals[field]
            steps.next_desired[field][rows] = goals[field]

    def already_achieved(self, steps: Steps, sources: np.ndarray) -> np.ndarray:
        """Whether the goals of the states at ``sources`` were achieved when the first steps began."""
        goals = self._states.take("achieved", sources)
        differ: np.ndarray = _as_bytes(goals) != _as_bytes(steps.achieved[: len(sources)])
        return np.logical_not(differ.any(axis=1))

    def verify(self) -> None:
        """Check that the rings agree with each other.

        Raises:
            RuntimeError: They do not.
        """
        lengths, num_segments = np.array(self._episodes, int).reshape(-1, 2).T
        positions, segments = self._states.live(), self._segments.live()
        episode_of_state = np.repeat(np.arange(len(lengths)), lengths + 1)
        t = np.arange(len(episode_of_state)) - np.repeat(np.cumsum(lengths + 1) - lengths - 1, lengths + 1)
        records = self._states.take("record", positions)
        episode_of_segment = np.full(self._segments.capacity, -1)
        episode_of_segment[segments] = np.repeat(np.arange(len(lengths)), num_segments)
        agreement = {
            "the number of steps": self._steps.size == lengths.sum() <= self._buffer_size,
            "the number of states": self._states.size == len(t) <= self._states.capacity,
            "the steps within their episodes": np.array_equal(records["t"], t),
            "the table of steps": np.array_equal(
                self._steps.take("position", self._steps.live()),
                positions[t < lengths[episode_of_state]],
            ),
            "the segments of the episodes": np.array_equal(
                episode_of_segment[records["segment"]], episode_of_state
            ),
            "the lengths of the episodes": np.array_equal(
                self._segments.take("segment", records["segment"])["length"], lengths[episode_of_state]
            ),
        }
        for what, agrees in agreement.items():
            if not agrees:
                raise RuntimeError(f"the buffer is corrupted: {what} do not agree with its episodes")

    def observations(self, records: np.ndarray, achieved: np.ndarray, desired: np.ndarray) -> dict[str, Tree]:
        """Return records as observations, in views; what is shared is copied."""
        reached = self.goal.read(achieved)
        observations: dict[str, Tree] = self._seen.read(
            records, {path: reached.copy() for path in self._shared}
        )
        observations["achieved_goal"] = reached
        observations["desired_goal"] = self.goal.read(desired)
        return {key: observations[key] for key in self._keys}

    def actions(self, records: np.ndarray) -> Tree:
        """Return the actions of records, in views."""
        return self._action.read(records)

    def _check_goals(self, episode: Episode, key: str) -> dict[Path, np.ndarray]:
        goals = leaf_at(episode.observations, (key,), "observations", "in the episode")
        return self.goal.check(goals, len(episode) + 1, f"observations/{key}")

    def _share(self, shared: set[Path]) -> None:
        """Store the leaves in ``shared``, which are the achieved goal in one more episode, no second time."""
        if not self.num_steps:
            if shared != self._shared:
                self._shared = shared
                self._allocate_states()
            return
        if self._shared <= shared:
            return
        no_more, self._shared = self._shared - shared, self._shared & shared
        self._record_dtype = self._make_record_dtype()

        def widen(records: np.ndarray, achieved: np.ndarray) -> np.ndarray:
            wider = np.zeros(len(records), self._record_dtype)
            for name in records.dtype.names or ():
                wider[name] = records[name]
            goals = self.goal.read(achieved)
            self._seen.write(wider, dict.fromkeys(no_more, goals))
            return wider

        self._states.rebuild("record", widen, "achieved")

    def _make_record_dtype(self) -> np.dtype[Any]:
        return np.dtype(
            [
                *self._seen.fields(without=self._shared),
                *self._action.fields(),
                ("reward", np.float32),
                ("t", np.int32),
                ("segment", np.int32),
            ],
            align=True,
        )

    def _allocate_states(self) -> None:
        """Allocate records for ``buffer_size`` steps of episodes of 32 steps or more.

        Raises:
            MemoryError: There is not so much memory.
        """
        self._record_dtype = self._make_record_dtype()
        room = self._buffer_size + self._buffer_size // 32 + 1
        try:
            self._states = Ring(room, record=self._record_dtype, achieved=self._achieved_dtype)
        except MemoryError as error:
            gigabytes = room * (self._record_dtype.itemsize + self._achieved_dtype.itemsize) / 2**30
            raise MemoryError(
                f"buffer_size={self._buffer_size} needs {gigabytes:.1f} GiB, which cannot be had; "
                "make it smaller"
            ) from error

    def _evict(self) -> None:
        length, num_segments = self._episodes.popleft()
        self._steps.drop(length)
        self._states.drop(length + 1)
        self._segments.drop(num_segments)
        self.first_index += length

    def _make_room(self, num_states: int, num_segments: int) -> None:
        """Grow the rings that are too small; what points into them moves along."""
        needed = self._states.size + num_states
        if needed > self._states.capacity:
            # T steps take T + 1 states, so twice as many states as steps always do.
            room = max(needed, self._states.capacity * 5 // 4)
            moved = self._states.grow(min(room, 2 * self._buffer_size))
            self._steps.map("position", moved)
        needed = self._segments.size + num_segments
        if needed > self._segments.capacity:
            moved = self._segments.grow(max(needed, 2 * self._segments.capacity))
            self._states.map("record", moved, "segment")


def _as_bytes(records: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(records).view(np.uint8).reshape(len(records), records.dtype.itemsize)


def _leaves_like_goal(seen: SpaceLayout, goal: SpaceLayout) -> list[Path]:
    """Return the leaves that could be the achieved goal, from their shapes and dtypes."""
    if list(goal.leaves) != [()]:
        return []
    like = goal.leaves[()]
    return [
        path for path, leaf in seen.leaves.items() if (leaf.shape, leaf.dtype) == (like.shape, like.dtype)
    ]
