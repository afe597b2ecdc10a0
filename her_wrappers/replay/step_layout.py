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

from her_wrappers.replay.encoded_episodes import EncodedEpisodes
from her_wrappers.replay.layout import SpaceLayout
from her_wrappers.replay.steps import as_words, own_copy
from her_wrappers.trees import leaf_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.replay.infos import InfoLayout
    from her_wrappers.replay.steps import Records, Steps
    from her_wrappers.trees import Path, Tree

GOALS = ("achieved_goal", "desired_goal")

QUICK_SIZES = 1, 2, 4, 8, 16
"""Bytes that NumPy gathers in half the time of other sizes, where all begin at whole words."""

WORD = 8


class StepLayout:
    """Records of states, and of segments.

    Args:
        observation_space: Dict with the goal keys, of one environment.
        action_space: Actions of one environment.
        infos: The infos to keep.

    Attributes:
        record: Dtype of a state.
        goal: Dtype of a goal.
        segment: Dtype of a segment.
        desired: Dtype of its desired goals.
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
        self._infos = infos
        self.goal = _padded(np.dtype(self._goal.fields(), align=True))
        numbers = np.dtype([(name, np.int64) for name in ("episode", "first_index", "length", "end")])
        self.segment = _with_size(numbers, 32)  # rows of so many bytes are taken quicker than smaller ones
        self.desired = np.dtype([("goals", self.goal, 2)])  # before a step, and after it
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
        record = np.dtype(
            [
                *self._goal.fields(),  # first: so that records begin with goals, padding and all
                *self._seen.fields(without=leaves),
                *self._action.fields(),
                ("reward", np.float32),
                *((flag, np.bool_) for flag in ("terminated", "truncated", "other_reason")),
            ],
            align=True,
        )
        self.record = _with_size(record, -(-record.itemsize // WORD) * WORD)
        self._flat = self._flat_fields()

    def sharable_in(self, episodes: Episodes) -> set[Path]:
        """Return the leaves that are the achieved goal throughout some episodes, to the last bit."""
        if not self._sharable:
            return set()
        goals = as_words(np.asarray(episodes.observations["achieved_goal"]))
        seen = {path: leaf_at(episodes.observations, path, "observations", "") for path in self._sharable}
        return {path for path, leaf in seen.items() if np.array_equal(as_words(np.asarray(leaf)), goals)}

    def part_ways(self, records: Records, no_more: set[Path]) -> None:
        """Write the leaves that were shared to records, where there is room for them now."""
        self._seen.write(records, dict.fromkeys(no_more, self._goal.read(records)))

    def encode(self, episodes: Episodes) -> EncodedEpisodes:
        """Bring episodes into the form in which they are stored.

        Raises:
            ValueError: They lie outside the spaces, lack an info, or have a reward that is not finite.
        """
        steps, count = episodes.num_steps, len(episodes)
        rewards = _as_rewards(episodes)
        seen = self._seen.check(episodes.observations, steps + count, "observations")
        actions = self._action.check(episodes.actions, steps, "actions", rounding=True)
        achieved, desired = (self._check_goals(episodes, key) for key in GOALS)
        infos = self._infos.encode(episodes.infos, steps) if self._infos.keys else None

        state_of_step = np.arange(steps) + np.repeat(np.arange(count), episodes.lengths)
        last_steps = episodes.ends[1:] - 1
        segments, goals, segment_of_step = self._encode_segments(episodes, desired, state_of_step)
        terminated, truncated, other_reason = np.zeros((3, steps), np.bool_)
        terminated[last_steps] = episodes.terminated
        truncated[last_steps] = episodes.truncated
        return EncodedEpisodes(
            layout=self,
            of_states=[*self._seen.columns(seen), *self._goal.columns(achieved)],
            of_steps=[
                *self._action.columns(actions),
                ("reward", rewards),
                ("terminated", terminated),
                ("truncated", truncated),
                ("other_reason", other_reason),
            ],
            terminated=terminated,
            other_reason=other_reason,
            segments=segments,
            desired=goals,
            segment_of_step=segment_of_step,
            state_of_step=state_of_step,
            last_steps=last_steps,
            infos=infos,
        )

    def parts(self, steps: Steps) -> tuple[dict[str, Tree], Tree, Any, dict[str, Tree], Any, Any]:
        """Return steps as the first parts of a batch, in views; what is shared is copied."""
        (before, after), (desired, desired_after) = steps.records, steps.desired
        return (
            self._observations(before, desired),
            self._action.read(before),
            before["reward"],
            self._observations(after, desired_after),
            before["terminated"],
            before["truncated"],
        )

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

    def _encode_segments(
        self, episodes: Episodes, desired: Mapping[Path, np.ndarray], state_of_step: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the segments, their desired goals, and which of them each step belongs to."""
        firsts = episodes.ends[:-1]
        # Every episode has one state more than steps. If no goal changes, segments are episodes.
        segment_of_step = state_of_step - np.arange(len(state_of_step))
        other_goal = _changes(desired)
        if other_goal is not None:
            other_goal[state_of_step[firsts]] = False
            begins = other_goal[state_of_step] | other_goal[state_of_step + 1]
            begins[firsts] = True
            firsts, segment_of_step = np.flatnonzero(begins), np.cumsum(begins) - 1
        segments = np.zeros(len(firsts), self.segment)
        states = state_of_step[firsts]
        both = np.add.outer(states, (0, 1))
        goals = np.zeros(len(firsts), self.desired)
        self._goal.write(goals["goals"], {path: leaf[both] for path, leaf in desired.items()})
        episode = states - firsts
        segments["episode"] = episode
        segments["first_index"] = episodes.ends[episode]
        segments["length"] = episodes.lengths[episode]
        segments["end"] = np.append(firsts[1:], episodes.num_steps)
        return segments, goals, segment_of_step


def _changes(leaves: Mapping[Path, np.ndarray]) -> np.ndarray | None:
    """Return which states have another goal than the state before, (T + n,) bool; None if none has."""
    other = None
    for leaf in leaves.values():
        rows = as_words(leaf)
        differ = rows[1:] != rows[:-1]
        if differ.any():
            changes = np.append(False, differ.any(axis=1))
            other = changes if other is None else other | changes
    return other


def _padded(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype of a quick size, where there is one."""
    sizes = [size for size in QUICK_SIZES if size >= dtype.itemsize]
    return _with_size(dtype, min(sizes, default=dtype.itemsize))


def _with_size(dtype: np.dtype[Any], size: int) -> np.dtype[Any]:
    fields: Mapping[str, Any] = dtype.fields or {}
    formats, offsets = zip(*((field[0], field[1]) for field in fields.values()), strict=True)
    return np.dtype({"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": size})


def _as_rewards(episodes: Episodes) -> np.ndarray:
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        rewards = np.asarray(episodes.rewards).astype(np.float32)
    if not np.isfinite(rewards).all():
        step = np.flatnonzero(~np.isfinite(rewards))[0]
        episode = int(np.searchsorted(episodes.ends, step, side="right")) - 1
        where = f"step {step - episodes.ends[episode]}" + f" of episode {episode}" * (len(episodes) > 1)
        raise ValueError(f"rewards must be finite as float32, got {episodes.rewards[step]} at {where}")
    return rewards


def _leaves_like_goal(seen: SpaceLayout, goal: SpaceLayout) -> list[Path]:
    """Return the leaves that could be the achieved goal, from their shapes and dtypes."""
    if list(goal.leaves) != [()]:
        return []
    like = goal.leaves[()]
    return [
        path for path, leaf in seen.leaves.items() if (leaf.shape, leaf.dtype) == (like.shape, like.dtype)
    ]
