"""StepLayout: how the episodes of an environment become records, and records the parts of a batch.

An episode of T steps is T + 1 records, one a state: what was seen and achieved there, the action taken, and
what it brought. No state is stored twice; the next observation of a step is the record behind it, and an
observation that is the achieved goal, as images are, stands there once for both. What stays the same for many
steps, the desired goals and the episode, is a segment, stored once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from her_wrappers.replay.arrays import as_bytes, changes, own_copy, plain
from her_wrappers.replay.batch import Batch
from her_wrappers.replay.storage.encoded_episodes import EncodedEpisodes
from her_wrappers.replay.storage.space_layout import SpaceLayout
from her_wrappers.trees import leaf_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.replay.storage.infos import InfoLayout
    from her_wrappers.replay.storage.steps import Records, Steps
    from her_wrappers.trees import Path, Tree

    Field = tuple[np.dtype[Any], int]

GOALS = ("achieved_goal", "desired_goal")

QUICK_SIZES = 1, 2, 4, 8, 16
"""Bytes that NumPy gathers in half the time of other sizes, where all begin at whole words."""

WORD = 8

INFINITE = 2.0**128 - 2.0**103
"""The least number that becomes infinite as float32."""


class StepLayout:
    """Records of states, and of segments.

    Args:
        observation_space: Dict with the goal keys, of one environment.
        action_space: Actions of one environment.
        infos: The infos to keep.

    Attributes:
        observation_space: As given.
        action_space: As given.
        infos: As given.
        record: Dtype of a state.
        goal: Dtype of a goal.
        segment: Dtype of a segment.
        desired: Dtype of its desired goals.
        step_bytes: Dtype of the part of a state's record that a step fills, as plain bytes.
        shared: Leaves of what is seen that are the achieved goal, and are stored as that alone.
    """

    def __init__(
        self, observation_space: spaces.Dict, action_space: spaces.Space[Any], infos: InfoLayout
    ) -> None:
        seen = {key: part for key, part in observation_space.items() if key not in GOALS}
        self._keys = list(observation_space)
        self._seen = SpaceLayout("seen", spaces.Dict(seen))
        self._action = SpaceLayout("action", action_space)
        self._goal = SpaceLayout("goal", observation_space["achieved_goal"])
        self._sharable = _leaves_like_goal(self._seen, self._goal)
        self.observation_space = observation_space
        self.action_space = action_space
        self.infos = infos
        self.goal = _padded(np.dtype(self._goal.fields(), align=True))
        numbers = np.dtype([(name, np.int64) for name in ("episode", "first_index", "length", "end")])
        self.segment = _with_size(numbers, 32)  # rows of so many bytes are taken quicker than smaller ones
        self.desired = np.dtype([("goals", self.goal, 2)])  # before a step, and after it
        flags = [(flag, np.bool_) for flag in ("terminated", "truncated", "other_reason")]
        self._step = np.dtype([*self._action.fields(), ("reward", np.float32), *flags], align=True)
        self.step_bytes = plain(self._step.itemsize)
        self.share(set())

    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of all that is seen, asked for and done, by name."""
        return {
            **self._seen.dtypes("observations"),
            **self._goal.dtypes("achieved_goal"),
            **self._action.dtypes("actions"),
        }

    def share(self, leaves: set[Path]) -> None:
        """Store these leaves as the achieved goal alone."""
        self.shared = leaves
        goals_first = self._goal.fields()  # so that records begin with goals, padding and all
        state = [*goals_first, *self._seen.fields(without=leaves)]
        record = np.dtype([*state, ("step", self._step)], align=True)
        fields, self._step_begin = _flattened(record, "step")
        self.record = _from_fields(fields, -(-record.itemsize // WORD) * WORD)
        self._flat = self._flat_fields()

    def steps_of(self, records: np.ndarray) -> np.ndarray:
        """Return the part of records that a step fills, as plain bytes: written at once, in half the time."""
        return np.ndarray(records.shape, self.step_bytes, records, self._step_begin, records.strides)

    def sharable_in(self, episodes: Episodes) -> set[Path]:
        """Return the leaves that are the achieved goal throughout some episodes, to the last bit."""
        if not self._sharable:
            return set()
        goals = np.asarray(episodes.observations["achieved_goal"])
        seen = {path: leaf_at(episodes.observations, path, "observations", "") for path in self._sharable}
        return {path for path, leaf in seen.items() if _are_same(np.asarray(leaf), goals)}

    def part_ways(self, records: Records, no_more: set[Path]) -> None:
        """Write the leaves that were shared to records, where there is room for them now."""
        self._seen.write(records, dict.fromkeys(no_more, self._goal.read(records)))

    def encode(self, episodes: Episodes) -> EncodedEpisodes:
        """Bring episodes into the form in which they are stored.

        Raises:
            ValueError: They lie outside the spaces, lack an info, or have a reward that is not finite.
        """
        steps, count = episodes.num_steps, len(episodes)
        _require_finite(episodes)
        seen = self._seen.check(episodes.observations, steps + count, "observations")
        actions = self._action.check(episodes.actions, steps, "actions", rounding=True)
        achieved, desired = (self._check_goals(episodes, key) for key in GOALS)
        infos = self.infos.encode(episodes.infos, steps) if self.infos.keys else None

        episode_of_step = np.arange(count).repeat(episodes.lengths)
        state_of_step = np.arange(steps) + episode_of_step
        last_steps = episodes.ends[1:] - 1
        segments, goals, segment_of_step = self._encode_segments(
            episodes, desired, state_of_step, episode_of_step
        )
        return EncodedEpisodes(
            layout=self,
            of_states=[*self._seen.columns(seen), *self._goal.columns(achieved)],
            of_steps=self._encode_steps(episodes, actions, last_steps),
            segments=segments,
            desired=goals,
            segment_of_step=segment_of_step,
            state_of_step=state_of_step,
            last_steps=last_steps,
            infos=infos,
        )

    def parts(self, steps: Steps) -> tuple[dict[str, Tree], Tree, Any, dict[str, Tree], Any, Any]:
        """Return steps as the first parts of a batch, in views; what is shared is copied."""
        before, after = steps.records[0], steps.records[1]  # to unpack them takes three times as long
        return (
            self._observations(before, steps.desired[0]),
            self._action.read(before),
            before["reward"],
            self._observations(after, steps.desired[1]),
            before["terminated"],
            before["truncated"],
        )

    def batch(self, steps: Steps, discounts: Any, weights: Any, relabeled: Any) -> Batch:
        """Return steps as a batch, in views: with these discounts and weights, and which are relabeled."""
        return Batch(*self.parts(steps), discounts, weights, relabeled, steps.numbers)

    def _observations(self, records: Records, desired: Records) -> dict[str, Tree]:
        if self._flat is not None:
            return {key: (desired if asked else records)[field] for key, field, asked in self._flat}
        achieved = self._goal.read(records)
        observations = {
            "achieved_goal": achieved,
            "desired_goal": self._goal.read(desired),
            **self._seen.read(records, {path: own_copy(achieved) for path in self.shared}),
        }
        return {key: observations[key] for key in self._keys}

    def _flat_fields(self) -> list[tuple[str, str, bool]] | None:
        """Return keys, fields, and which are desired, of observations that are dicts of fields of records."""
        goal, seen = self._goal.alone, self._seen.top_level
        if goal is None or seen is None or self.shared:
            return None
        fields = dict(seen) | dict.fromkeys(GOALS, goal)
        return [(key, fields[key], key == "desired_goal") for key in self._keys]

    def _check_goals(self, episodes: Episodes, key: str) -> dict[Path, np.ndarray]:
        goals = leaf_at(episodes.observations, (key,), "observations", "in the episode")
        return self._goal.check(goals, episodes.num_steps + len(episodes), f"observations/{key}")

    def _encode_steps(
        self, episodes: Episodes, actions: Mapping[Path, np.ndarray], last_steps: np.ndarray
    ) -> np.ndarray:
        steps = np.zeros(episodes.num_steps, self._step)
        self._action.write(steps, actions)
        steps["reward"] = episodes.rewards
        steps["terminated"][last_steps] = episodes.terminated
        steps["truncated"][last_steps] = episodes.truncated
        return steps

    def _encode_segments(
        self,
        episodes: Episodes,
        desired: Mapping[Path, np.ndarray],
        state_of_step: np.ndarray,
        episode_of_step: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the segments, their desired goals, and which of them each step belongs to."""
        firsts, segment_of_step = episodes.ends[:-1], episode_of_step  # if no goal changes
        changed = changes(desired.values())
        if changed is not None:
            begins = changed[state_of_step]
            begins[1:] |= begins[:-1]
            begins[firsts] = True
            firsts = begins.nonzero()[0]
            begins[0] = False  # to count from 0
            segment_of_step = begins.cumsum()
        goals = np.zeros(len(firsts), self.desired)
        states = state_of_step[firsts]
        for i, there in enumerate((states, states + 1)):
            leaves = {path: leaf.take(there, axis=0) for path, leaf in desired.items()}
            self._goal.write(goals["goals"][:, i], leaves)
        segments = np.zeros(len(firsts), self.segment)
        segments["episode"] = episode = episode_of_step[firsts]
        segments["first_index"] = episodes.ends[episode]
        segments["length"] = episodes.lengths[episode]
        segments["end"] = np.append(firsts[1:], episodes.num_steps)
        return segments, goals, segment_of_step


def _are_same(leaf: np.ndarray, other: np.ndarray) -> bool:
    return leaf.dtype == other.dtype and np.array_equal(as_bytes(leaf), as_bytes(other))


def _padded(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype of a quick size, where there is one."""
    sizes = [size for size in QUICK_SIZES if size >= dtype.itemsize]
    return _with_size(dtype, min(sizes, default=dtype.itemsize))


def _with_size(dtype: np.dtype[Any], size: int) -> np.dtype[Any]:
    return _from_fields(_fields_of(dtype), size)


def _flattened(dtype: np.dtype[Any], part: str) -> tuple[dict[str, Field], int]:
    """Return the fields of a dtype, with those of the part instead of it, and where the part begins."""
    fields = _fields_of(dtype)
    inner, begin = fields.pop(part)
    fields |= {name: (field, begin + offset) for name, (field, offset) in _fields_of(inner).items()}
    return fields, begin


def _fields_of(dtype: np.dtype[Any]) -> dict[str, Field]:
    fields: Mapping[str, Any] = dtype.fields or {}
    return {name: field[:2] for name, field in fields.items()}


def _from_fields(fields: Mapping[str, Field], size: int) -> np.dtype[Any]:
    formats, offsets = zip(*fields.values(), strict=True)
    return np.dtype({"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": size})


def _require_finite(episodes: Episodes) -> None:
    """Refuse rewards that are not finite as float32.

    Raises:
        ValueError: There is one.
    """
    rewards = episodes.rewards
    if float(np.abs(rewards).max()) < INFINITE:  # not so of NaN
        return
    step = np.flatnonzero(~(np.abs(rewards.astype(np.longdouble)) < INFINITE))[0]
    episode = int(np.searchsorted(episodes.ends, step, side="right")) - 1
    where = f"step {step - episodes.ends[episode]}" + f" of episode {episode}" * (len(episodes) > 1)
    raise ValueError(f"rewards must be finite as float32, got {rewards[step]} at {where}")


def _leaves_like_goal(seen: SpaceLayout, goal: SpaceLayout) -> list[Path]:
    """Return the leaves that could be the achieved goal, from their shapes and dtypes."""
    if list(goal.leaves) != [()]:
        return []
    like = goal.leaves[()]
    return [
        path for path, leaf in seen.leaves.items() if (leaf.shape, leaf.dtype) == (like.shape, like.dtype)
    ]
