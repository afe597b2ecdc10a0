"""StepLayout: how episodes become records, and records become the fields of a batch.

An episode of T steps is stored as T + 1 records, one per state: the observation and achieved goal of the
state, the action taken there, and its reward and flags. No state is stored twice: the next observation of a
step is in the next record. An observation that equals the achieved goal, such as an image, is stored once.
The desired goal and the episode are stored once per segment of steps (see `EpisodeIndex`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from her_wrappers.recording.episode import unchecked
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.byte_rows import bytes_dtype, equal_bytes, fast_itemsize, row_changes, select_fields
from her_wrappers.replay.episode_index import PackedEpisodes
from her_wrappers.replay.rewards import require_finite_rewards
from her_wrappers.spaces import LeafSpec, SpaceSpec
from her_wrappers.trees import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from her_wrappers.replay.byte_rows import Records, StoredSteps
    from her_wrappers.trees import Path, Tree

GOALS = ("achieved_goal", "desired_goal")

GOAL_FIELD = "goal 0"
"""Field of the achieved goal if a goal is a single array."""

FLAGS = ("terminated", "truncated", "goal_independent")
OUTCOME_FIELDS = [("reward", np.float32, ()), *((flag, np.bool_, ()) for flag in FLAGS)]
"""Fields of a step after those of the action. ``goal_independent``: whether the step terminated independently
of its goal."""

WORD = 8
"""The size of a record is a multiple of this number of bytes."""


@dataclass(frozen=True, eq=False)
class StepLayout:
    """Dtypes of the records of states, goals and infos. Layouts are never changed, only replaced.

    Attributes:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal`` of one environment.
        action_space: Actions of one environment.
        info_keys: Infos to store.
        info_dtype: Dtype of the infos of a step; None before the first episode.
        deduplicated: Paths of observations that equal the achieved goal in all stored episodes, and are
            stored as the achieved goal only.
        observations: Leaves of an observation, goals included.
        actions: Leaves of an action.
        goal_dtype: Dtype of a goal.
        goal_bytes: Dtype of a goal as plain bytes.
        desired_dtype: Dtype of the desired goals of a segment, before and after its steps.
        step_dtype: Dtype of the fields of a record that belong to a step: action, reward and flags.
        step_offset: Position of the first of these fields in a record, in bytes.
        record_dtype: Dtype of a record.
    """

    observation_space: spaces.Dict
    action_space: spaces.Space[Any]
    observations: SpaceSpec
    actions: SpaceSpec
    info_keys: tuple[str, ...]
    info_dtype: np.dtype[Any] | None = None
    deduplicated: frozenset[Path] = frozenset()
    goal_dtype: np.dtype[Any] = field(init=False)
    goal_bytes: np.dtype[Any] = field(init=False)
    desired_dtype: np.dtype[Any] = field(init=False)
    step_dtype: np.dtype[Any] = field(init=False)
    step_offset: int = field(init=False)
    record_dtype: np.dtype[Any] = field(init=False)
    _sources: list[FieldSource] = field(init=False)

    @classmethod
    def of(
        cls, observation_space: spaces.Dict, action_space: spaces.Space[Any], info_keys: Sequence[str] = ()
    ) -> StepLayout:
        """Return the layout for the steps of an environment, before the first episode.

        Raises:
            TypeError: A space has elements that are not arrays of one shape.
        """
        observations = SpaceSpec.of("observations", observation_space)
        actions = SpaceSpec.of("actions", action_space)
        return cls(observation_space, action_space, observations, actions, tuple(info_keys))

    def __post_init__(self) -> None:
        goal, others, sources = self._state_fields()
        step: list[tuple[str, Any, tuple[int, ...]]] = []
        for i, leaf in enumerate(self.actions.leaves):
            step.append((f"action {i}", leaf.dtype, leaf.shape))
        step += OUTCOME_FIELDS
        # Goals come first, so that a goal with its padding is the first bytes of a record.
        record = np.dtype([*goal, *others, *step], align=True)
        fields: Mapping[str, Any] = record.fields or {}
        step_names = next(zip(*step, strict=True))
        step_offset = fields[step_names[0]][1]
        step_size = fields["goal_independent"][1] + 1 - step_offset
        goal_dtype = np.dtype(goal, align=True)
        # A goal of size 0 would have rows of 0 bytes, of which torch cannot make views.
        size = fast_itemsize(goal_dtype.itemsize or WORD)
        goal_dtype = select_fields(goal_dtype, goal_dtype.names or (), size)
        derived = {
            "goal_dtype": goal_dtype,
            "goal_bytes": bytes_dtype(goal_dtype.itemsize),
            "desired_dtype": np.dtype([("goals", goal_dtype, 2)]),
            "step_dtype": select_fields(record, step_names, step_size),
            "step_offset": step_offset,
            "record_dtype": select_fields(record, record.names or (), -(-record.itemsize // WORD) * WORD),
            "_sources": sources,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def _state_fields(self) -> tuple[list[Any], list[Any], list[FieldSource]]:
        """Return the fields of goals, the fields of other observations, and the field of each leaf."""
        goal: list[Any] = []
        others, sources = [], []
        names: dict[Path, str] = {}
        for leaf in self.observations.leaves:
            if leaf.path[0] == "achieved_goal":
                names[leaf.path[1:]] = name = f"goal {len(goal)}"
                goal.append((name, leaf.dtype, leaf.shape))
        for i, leaf in enumerate(self.observations.leaves):
            key = leaf.path[0]
            if key in GOALS:
                sources.append(FieldSource(leaf, names[leaf.path[1:]], key == "desired_goal", False))
            elif leaf.path in self.deduplicated:
                sources.append(FieldSource(leaf, GOAL_FIELD, False, True))
            else:
                others.append((f"observation {i}", leaf.dtype, leaf.shape))
                sources.append(FieldSource(leaf, f"observation {i}", False, False))
        return goal, others, sources

    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of all observations, goals and actions, by name."""
        return {leaf.name: leaf.dtype for leaf in (*self.observations, *self.actions)}

    def validate(self, episodes: Episodes) -> Episodes:
        """Return episodes whose arrays have the dtypes of the spaces.

        Raises:
            ValueError: A value does not fit its space, an info is missing, is not numeric or has another
                shape than before, or a reward is not finite as float32.
        """
        steps, count = len(episodes.rewards), len(episodes.lengths)
        require_finite_rewards(episodes)
        observations = self.observations.check_rows(episodes.observations, steps + count, "the episode")
        actions = self.actions.check_rows(episodes.actions, steps, "the episode", rounding=True)
        infos = {}
        for key in self.info_keys:
            infos[key] = self._check_info(key, episodes.infos, steps)
        return unchecked(
            Episodes,
            observations=self.observations.build(observations),
            actions=self.actions.build(actions),
            rewards=episodes.rewards,
            lengths=episodes.lengths,
            ends=episodes.ends,
            state_of_step=episodes.state_of_step,
            terminated=episodes.terminated,
            truncated=episodes.truncated,
            infos=infos,
            reset_infos=(),
        )

    def _check_info(self, key: str, infos: Mapping[str, np.ndarray], steps: int) -> np.ndarray:
        if key not in infos:
            raise ValueError(
                f"infos/{key} is missing in the episode; record it with EpisodeRecorder(info_keys=[{key!r}])"
            )
        column = np.asarray(infos[key])
        if column.dtype.kind not in NUMBERS:
            raise ValueError(f"infos/{key} of the episode must hold numbers, got dtype {column.dtype}")
        shape = (steps, *(column.shape[1:] if self.info_dtype is None else self.info_dtype[key].shape))
        if column.shape != shape:
            raise ValueError(f"infos/{key} of the episode must have shape {shape}, got {column.shape}")
        return column

    def find_duplicates(self, episodes: Episodes) -> frozenset[Path]:
        """Return the paths of observations that equal the achieved goal throughout validated episodes."""
        goals, duplicates = episodes.observations["achieved_goal"], set()
        if isinstance(goals, np.ndarray):
            for leaf in self.observations.leaves:
                if leaf.path[0] not in GOALS:
                    values = leaf.find(episodes.observations, "")
                    if (values.dtype, values.shape) == (goals.dtype, goals.shape) and equal_bytes(
                        values, goals
                    ):
                        duplicates.add(leaf.path)
        return frozenset(duplicates)

    def info_field(self, key: str) -> np.dtype[Any]:
        """Return the dtype in which the values of an info are stored, after the first episode.

        Raises:
            KeyError: No such info is stored.
        """
        if self.info_dtype is None:
            raise KeyError(key)
        return self.info_dtype[key].base

    def fitted_to(self, episodes: Episodes, deduplicated: frozenset[Path]) -> StepLayout:
        """Return a layout that fits both the stored episodes and some validated ones.

        Args:
            episodes: The episodes.
            deduplicated: Paths of observations that equal the achieved goal in these and in all stored
                episodes.
        """
        info_dtype = self.info_dtype
        if self.info_keys:
            # Infos that are integers at first, such as a cost of 0, may become floats.
            fields = []
            for key, column in episodes.infos.items():
                dtypes = [column.dtype] if info_dtype is None else [column.dtype, self.info_field(key)]
                fields.append((key, np.result_type(*dtypes), column.shape[1:]))
            info_dtype = np.dtype(fields, align=True)
        if info_dtype == self.info_dtype and deduplicated == self.deduplicated:
            return self
        return replace(self, info_dtype=info_dtype, deduplicated=deduplicated)

    def pack(self, episodes: Episodes, goal_independent: np.ndarray) -> PackedEpisodes:
        """Return validated episodes in the form in which they are stored.

        Args:
            episodes: The episodes, to which this layout is fitted.
            goal_independent: (n,) bool, whether an episode terminated independently of its goal.
        """
        of_states, desired = [], []
        for leaf, name, is_desired, is_copied in self._sources:
            if is_desired:
                desired.append((name, leaf.find(episodes.observations, "")))
            elif not is_copied:
                of_states.append((name, leaf.find(episodes.observations, "")))
        steps = np.zeros(len(episodes.rewards), self.step_dtype)
        for i, leaf in enumerate(self.actions.leaves):
            steps[f"action {i}"] = leaf.find(episodes.actions, "")
        last = episodes.ends[1:] - 1
        steps["reward"] = episodes.rewards
        steps["terminated"][last] = episodes.terminated
        steps["truncated"][last] = episodes.truncated
        steps["goal_independent"][last] = goal_independent
        segments, goals, segment_of_step = self._pack_segments(episodes, desired)
        return PackedEpisodes(
            of_states=of_states,
            steps=steps,
            segments=segments,
            desired=goals,
            segment_of_step=segment_of_step,
            state_of_step=episodes.state_of_step,
            num_episodes=len(episodes.lengths),
            infos=self._pack_infos(episodes) if self.info_keys else None,
        )

    def _pack_infos(self, episodes: Episodes) -> np.ndarray:
        records = np.zeros(episodes.num_steps, self.info_dtype)
        for key, column in episodes.infos.items():
            records[key] = column
        return records

    def _pack_segments(
        self, episodes: Episodes, leaves: Sequence[tuple[str, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the segments, their desired goals, and the segment of each step."""
        num_steps, count = len(episodes.rewards), len(episodes.lengths)
        episode = np.arange(count)
        segment_of_step = episode.repeat(episodes.lengths)  # if no goal changes, a segment is an episode
        firsts, ends = episodes.ends[:-1], episodes.ends[1:]
        changed = row_changes([values for _, values in leaves])
        if changed is not None:
            begins = changed[episodes.state_of_step]
            begins[1:] |= begins[:-1]
            begins[firsts] = True
            firsts = begins.nonzero()[0]
            ends = np.append(firsts[1:], num_steps)
            episode = segment_of_step[firsts]
            begins[0] = False  # to count from 0
            segment_of_step = begins.cumsum()
        desired = np.zeros(len(firsts), self.desired_dtype)
        goals, states = desired["goals"], episodes.state_of_step[firsts]
        before_and_after = np.add.outer(states, (0, 1))
        for name, values in leaves:
            goals[name] = values.take(before_and_after, axis=0)
        segments = np.empty((len(firsts), 4), np.int64)
        segments[:, 0] = episode
        segments[:, 1] = episodes.ends[episode]
        segments[:, 2] = episodes.lengths[episode]
        segments[:, 3] = ends
        return segments, desired, segment_of_step

    def write(self, packed: PackedEpisodes, begin: int, records: np.ndarray) -> None:
        """Write states of packed episodes, and the steps that begin in them, to records of a storage.

        Args:
            packed: The episodes.
            begin: Index of the first of the n states.
            records: (n,) records, which are overwritten.
        """
        end = begin + len(records)
        for name, values in packed.of_states:
            records[name] = values[begin:end]
        states: Any
        if packed.num_episodes == 1:  # slices take half the time
            first, last = begin, min(end, len(packed.steps))
            states = slice(0, last - first)
        else:
            first, last = packed.state_of_step.searchsorted((begin, end))
            states = packed.state_of_step[first:last] - begin
        # As plain bytes, all fields of a step are written at once, in half the time.
        dtype = bytes_dtype(self.step_dtype.itemsize)
        steps_of_records = np.ndarray(records.shape, dtype, records, self.step_offset, records.strides)
        steps_of_records[states] = np.ndarray(len(packed.steps), dtype, packed.steps)[first:last]

    def transitions(self, steps: StoredSteps) -> tuple[dict[str, Tree], Tree, Any, dict[str, Tree], Any, Any]:
        """Return observations, actions, rewards, next observations, terminations and truncations of steps.

        All are views of the records, except that leaves stored as the achieved goal are copies.

        Args:
            steps: Records of B steps, whose memory the returned arrays share.
        """
        before, after = steps.records[0], steps.records[1]  # unpacking takes three times as long
        actions: Any = before["action 0"] if self.actions.structure == 0 else self._actions(before)
        return (
            self._observations(before, steps.desired[0]),
            actions,
            before["reward"],
            self._observations(after, steps.desired[1]),
            before["terminated"],
            before["truncated"],
        )

    def _actions(self, records: Records) -> Tree:
        return self.actions.build([records[f"action {i}"] for i in range(len(self.actions.leaves))])

    def _observations(self, records: Records, desired: Records) -> dict[str, Tree]:
        is_flat = self.observations.flat_keys is not None
        leaves: dict[Any, Any] = {}
        for i, (leaf, name, is_desired, is_copied) in enumerate(self._sources):
            values = (desired if is_desired else records)[name]
            if is_copied:
                values = values.copy() if isinstance(values, np.ndarray) else values.clone()
            leaves[leaf.key if is_flat else i] = values
        tree: dict[str, Tree] = leaves if is_flat else self.observations.build(leaves)
        return tree


class FieldSource(NamedTuple):
    """The field in which a leaf of the observations is stored.

    Attributes:
        leaf: The leaf.
        field: Name of the field.
        is_desired: Whether the field belongs to the record of a desired goal and not of a state.
        is_copied: Whether the leaf is deduplicated, so that a batch needs a copy of the achieved goal.
    """

    leaf: LeafSpec
    field: str
    is_desired: bool
    is_copied: bool
