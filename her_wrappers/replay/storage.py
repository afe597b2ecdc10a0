"""EpisodeStorage: the memory of a replay buffer. It stores complete episodes and gathers their steps.

An episode of T steps is T + 1 records, one a state: what was seen there, the action taken, and where the step
stands in its episode. No state is stored twice; the next observation of a step is the record behind it.
Achieved goals stand in a column of their own, because relabeling picks them from places where nothing else is
read. Desired goals are stored once for as long as they stay the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from her_wrappers.replay.layout import SpaceLayout
from her_wrappers.replay.ring import Ring

if TYPE_CHECKING:
    from her_wrappers.recording.episode import Episode
    from her_wrappers.trees import Tree

GOALS = ("achieved_goal", "desired_goal")

FIRST_GOALS = 64
"""Desired goals there is room for before their ring grows."""


@dataclass(frozen=True, eq=False)
class EncodedEpisode:
    """An episode as it is stored: one record a state, T + 1 of each kind."""

    records: np.ndarray
    achieved: np.ndarray
    desired: np.ndarray


@dataclass(frozen=True, eq=False)
class Steps:
    """B steps copied out of a storage, as records; their fields are views.

    Attributes:
        positions: (B,) where they stand.
        records: (B,) their states and what was done there.
        next_records: (B,) the states after.
        achieved: (B,) goals achieved in the states.
        next_achieved: (B,) goals achieved in the states after.
        desired: (B,) desired goals in the states.
        next_desired: (B,) desired goals in the states after.
    """

    positions: np.ndarray
    records: np.ndarray
    next_records: np.ndarray
    achieved: np.ndarray
    next_achieved: np.ndarray
    desired: np.ndarray
    next_desired: np.ndarray


class EpisodeStorage:
    """Complete episodes, first in, first out, at most ``buffer_size`` steps of them.

    Args:
        observation_space: Dict with the goal keys, of one environment.
        action_space: Actions of one environment.
        buffer_size: Steps to hold.
    """

    def __init__(
        self, observation_space: spaces.Dict, action_space: spaces.Space[Any], buffer_size: int
    ) -> None:
        seen = {key: part for key, part in observation_space.items() if key not in GOALS}
        self._keys = list(observation_space)
        self._seen = SpaceLayout("seen", spaces.Dict(seen))
        self._action = SpaceLayout("action", action_space)
        self.goal = SpaceLayout("goal", observation_space["achieved_goal"])
        self._record_dtype = np.dtype(
            [
                *self._seen.fields,
                *self._action.fields,
                ("reward", np.float32),
                ("t", np.int32),
                ("length", np.int32),
                ("goal", np.int32),
                ("terminated", np.bool_),
                ("truncated", np.bool_),
                ("other_reason", np.bool_),
            ],
            align=True,
        )
        self._buffer_size = buffer_size
        self.clear()

    def clear(self) -> None:
        """Drop all episodes and allocate anew."""
        room = self._buffer_size + self._buffer_size // 16 + 1
        self._states = Ring(room, record=self._record_dtype, achieved=self.goal.dtype())
        self._goals = Ring(FIRST_GOALS, goal=self.goal.dtype())
        self._steps = Ring(self._buffer_size, position=np.int32 if room < 2**30 else np.int64)
        self._episodes: deque[tuple[int, int]] = deque()  # steps and goals of each
        self.first_index = 0

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
        return self._states.nbytes + self._goals.nbytes + self._steps.nbytes

    def encode(self, episode: Episode) -> EncodedEpisode:
        """Bring an episode into the form in which it is stored.

        Raises:
            ValueError: It lies outside the spaces, or has a reward that is not finite.
        """
        length = len(episode)
        if not np.isfinite(episode.rewards).all():
            t = np.flatnonzero(~np.isfinite(episode.rewards))[0]
            raise ValueError(f"rewards must be finite, got {episode.rewards[t]} at step {t}")
        # zeros, so that padding bytes are alike and records can be compared as bytes
        records = np.zeros(length + 1, self._record_dtype)
        achieved, desired = np.zeros((2, length + 1), self.goal.dtype())
        self._seen.write(records, episode.observations, "observations")
        self._action.write(records[:-1], episode.actions, "actions")
        for key, goals in zip(GOALS, (achieved, desired), strict=True):
            if key not in episode.observations:
                raise ValueError(f"observations/{key} is missing in the episode")
            self.goal.write(goals, episode.observations[key], f"observations/{key}")
        records["reward"][:-1] = episode.rewards
        records["t"] = np.arange(length + 1)
        records["length"] = length
        records["terminated"][-2] = episode.terminated
        records["truncated"][-2] = episode.truncated
        return EncodedEpisode(records, achieved, desired)

    def append(self, episode: EncodedEpisode) -> None:
        """Store an episode of at most ``buffer_size`` steps, evicting the oldest ones as far as needed."""
        length = len(episode.records) - 1
        while self._steps.size + length > self._buffer_size:
            self._evict()
        bytes_of_goals = episode.desired.view(np.uint8).reshape(length + 1, -1)
        changes = np.append(True, (bytes_of_goals[1:] != bytes_of_goals[:-1]).any(axis=1))
        goals = episode.desired[changes]
        self._make_room(length + 1, len(goals))
        episode.records["goal"] = self._goals.append(goal=goals)[np.cumsum(changes) - 1]
        positions = self._states.append(record=episode.records, achieved=episode.achieved)
        self._steps.append(position=positions[:-1])
        self._episodes.append((length, len(goals)))

    def take(self, offsets: np.ndarray, num_relabeled: int) -> Steps:
        """Copy steps out.

        Args:
            offsets: (B,) which steps, counted from the oldest stored.
            num_relabeled: So many first rows get no desired goals, since they are to get others.
        """
        positions = self._steps.take("position", self._steps.start + offsets)
        following = positions + 1
        records = self._states.take("record", positions)
        next_records = self._states.take("record", following)
        desired, next_desired = np.empty((2, len(offsets)), self.goal.dtype())
        if num_relabeled < len(offsets):
            desired[num_relabeled:] = self._goals.take("goal", records["goal"][num_relabeled:])
            next_desired[num_relabeled:] = self._goals.take("goal", next_records["goal"][num_relabeled:])
        return Steps(
            positions=positions,
            records=records,
            next_records=next_records,
            achieved=self._states.take("achieved", positions),
            next_achieved=self._states.take("achieved", following),
            desired=desired,
            next_desired=next_desired,
        )

    def achieved_at(self, positions: np.ndarray) -> np.ndarray:
        """Return the goals achieved in the states at ``positions``, as records."""
        return self._states.take("achieved", positions)

    def achieved_after(self, offsets: np.ndarray) -> np.ndarray:
        """Return the goals that steps led to, as records; steps are counted from the oldest stored."""
        return self._states.take("achieved", self._steps.take("position", self._steps.start + offsets) + 1)

    def observations(self, records: np.ndarray, achieved: np.ndarray, desired: np.ndarray) -> dict[str, Tree]:
        """Return records as observations, in views."""
        observations: dict[str, Tree] = self._seen.read(records)
        observations["achieved_goal"] = self.goal.read(achieved)
        observations["desired_goal"] = self.goal.read(desired)
        return {key: observations[key] for key in self._keys}

    def actions(self, records: np.ndarray) -> Tree:
        """Return the actions of records, in views."""
        return self._action.read(records)

    def _evict(self) -> None:
        length, num_goals = self._episodes.popleft()
        self._steps.drop(length)
        self._states.drop(length + 1)
        self._goals.drop(num_goals)
        self.first_index += length

    def _make_room(self, num_states: int, num_goals: int) -> None:
        """Grow the rings that are too small; what points into them moves along."""
        needed = self._states.size + num_states
        if needed > self._states.capacity:
            # T steps take T + 1 states, so twice as many states as steps always do.
            moved = self._states.grow(min(max(needed, self._states.capacity * 5 // 4), 2 * self._buffer_size))
            self._steps.map("position", moved)
        needed = self._goals.size + num_goals
        if needed > self._goals.capacity:
            moved = self._goals.grow(max(needed, 2 * self._goals.capacity))
            self._states.map("record", moved, "goal")
