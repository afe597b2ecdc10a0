"""RowStorage: the memory of a replay buffer, with one row for each state.

An episode of T steps has T + 1 states, in T + 1 consecutive rows of a ring, whose last row is followed by
row 0. The row of a state also has the action and the reward of the step that begins in this state. No state
is stored twice: the next state of a step is in the next row. States have rows, and steps have step numbers:

::

    state             s_0     s_1     ...     s_T-1     s_T      s_0 of the next episode
    row               r       r + 1   ...     r + T-1   r + T    r + T+1
    step number       n       n + 1   ...     n + T-1   (none)   n + T

A *step number* is never used twice. A *goal span* is a sequence of steps of one episode without a change of
the desired goal, or a single step that changes it; most episodes are one goal span. Each stored step refers
to its goal span, and the goal span to its episode.

There are three rings: states, goal spans and steps. Number i lies in slot i % capacity of its ring. Two slots
are stored in place of numbers, since each batch needs them: `Stored.steps` has the slots of goal spans, and
the column ROW has the slot of a first state, the *row*. If a ring grows, they are computed again.

The arrays (leaves) of observations and actions are fields of records, so a batch needs one ``take`` per kind
of record: achieved goals, and the rest of a state with the step that begins there. The records of desired
goals are like those of achieved goals, and each goal span has two of them.

`RowStorage.stored` is replaced, never changed: new values are written to rows that no stored episode uses,
and become visible by one assignment. An interruption loses at most the new and the evicted episodes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from her_wrappers.data.spaces import LeafSpec, SpaceSpec, leaf_spaces
from her_wrappers.data.trees import FLOAT32_OVERFLOW, NUMBERS, concatenate_trees, copy_tree
from her_wrappers.recording.episodes import Episodes, unchecked
from her_wrappers.recording.sinks import NotFiniteError

# Columns of `Stored.goal_spans`. Of the episode: number of the first step, row of the first state, number of
# steps, and flags. The last column, of the goal span: number of the step after its last step.
FIRST, ROW, LENGTH, FLAGS = range(4)
# For each value of FLAGS, (3, 8) bool: terminated, truncated, terminated independently of the goal
HAS_FLAG = (np.arange(8) & np.array([[1], [2], [4]])) > 0
# NumPy takes rows of these sizes in bytes in half the time, so small goals are padded to them.
FAST_SIZES = 1, 2, 4, 8, 16, 32
READ_BYTES = 2**23  # approximate size of the blocks in which episodes are read
MAX_BLOCKS = 256  # maximum number of blocks; larger storages have larger blocks
GOAL_PATHS = ("achieved_goal",), ("desired_goal",)  # beginnings of paths of observations
LARGE_RECORD = 1024  # bytes, such as of images; actions and rewards that are views would keep them alive
MIN_SPANS = 64  # number of goal spans for which memory is allocated at first


class Stored(NamedTuple):
    """Everything that a storage contains. The numbers ``first...`` to ``end...`` - 1 are stored."""

    first: int  # number of the oldest step
    end: int  # number of the next step that will be added
    first_state: int  # the same numbers of the states; state i is in row i % capacity
    end_state: int
    first_span: int  # and of the goal spans
    end_span: int
    steps: np.ndarray  # (buffer_size,) slot of the goal span of each step
    goal_spans: np.ndarray  # (n, 5) int64, see FIRST and the other columns
    # Arrays of records of states: the achieved goals, the rest of the state with the step that begins there,
    # and each observation that may equal the achieved goal, or None if it does in all states.
    states: Sequence[Any]
    desired: np.ndarray  # (n, 2) desired goals before and after each goal span, as bytes
    infos: Mapping[str, Any]  # arrays (buffer_size, ...) with the slots of `steps`

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return self.end - self.first

    @property
    def num_episodes(self) -> int:
        """Number of episodes; an episode of T steps has T + 1 states."""
        return self.end_state - self.first_state - self.num_steps


class Place(NamedTuple):
    """The field in which a leaf, one array of an observation or action, is stored."""

    leaf: LeafSpec
    records: Any  # index in `Stored.states`; None for desired goals, which are in `Stored.desired`
    field: str


class RowStorage:
    """Stores complete episodes, with at most ``buffer_size`` steps in total. The oldest are evicted first."""

    stored: Stored  # a new object after every change

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        buffer_size: int,
        info_keys: Sequence[str],
        first: int,  # number of the first step that will be added
    ) -> None:
        self.buffer_size, self._info_keys = buffer_size, info_keys
        self.observations = SpaceSpec.of("observations", observation_space)
        self.actions = SpaceSpec.of("actions", action_space)
        # Of each leaf of discrete actions: the first action, and the number of further actions.
        self._choices: list[tuple[LeafSpec, Any, Any]] = []
        for leaf, space in zip(self.actions, leaf_spaces(action_space).values(), strict=True):
            if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
                most = (space.n if isinstance(space, spaces.Discrete) else space.nvec) - 1
                most = np.asarray(most, f"u{leaf.dtype.itemsize}")
                self._choices.append((leaf, np.asarray(space.start, leaf.dtype), most))
        self._lay_out()
        self.clear(first)

    def _lay_out(self) -> None:
        """Choose for each leaf of the spaces the field in which its values are stored."""
        goals = [leaf for leaf in self.observations if leaf.path[0] == "achieved_goal"]
        goal = [(leaf.dtype, leaf.shape, leaf.path) for leaf in goals]
        others: list[LeafSpec] = []
        twins: list[LeafSpec] = []
        for leaf in self.observations:
            if leaf.path[:1] not in GOAL_PATHS:
                # An observation that may equal the achieved goal, such as an image, has records of its own,
                # which are not allocated as long as both are equal.
                may_equal = goal == [(leaf.dtype, leaf.shape, ("achieved_goal",))]
                (twins if may_equal else others).append(leaf)
        places: dict[Any, Any] = {}
        for number, group in enumerate([goals, others, *([leaf] for leaf in twins)]):
            places |= {leaf.path: (number, str(i)) for i, leaf in enumerate(group)}
        places |= {("desired_goal", *leaf.path[1:]): (None, places[leaf.path][1]) for leaf in goals}
        self._observed = [Place(leaf, *places[leaf.path]) for leaf in self.observations]
        self._acted = [Place(leaf, 1, str(i)) for i, leaf in enumerate(self.actions, len(others))]
        size = _record(goals).itemsize
        padding = next((fast for fast in FAST_SIZES if fast >= size), size) - size
        self._goal = _record(goals, **({"padding": f"V{padding}"} if padding else {}))
        self._goal_bytes = np.dtype((np.void, self._goal.itemsize))  # is copied faster than records
        step = _record([*others, *self.actions], reward=np.float32)
        self._records = [self._goal, step, *(_record([leaf]) for leaf in twins)]
        self.row_size = sum(dtype.itemsize for dtype in self._records)  # in bytes

    def clear(self, first: int) -> None:
        """Remove everything and allocate new memory; the next step gets the number ``first``."""
        size = self.buffer_size
        rows = size + size // 32 + 1  # enough for episodes of 32 steps or more; the ring grows for others
        try:
            records = enumerate(self._records)
            # Observations that may equal the achieved goal get memory when they first differ from it.
            states = [np.zeros(rows, dtype) if i < 2 else None for i, dtype in records]
            steps = np.zeros(size, np.int32 if size < 2**31 else np.int64)
        except (MemoryError, ValueError) as error:  # ValueError: more than NumPy can address
            raise MemoryError(
                f"buffer_size={size} needs {rows * self.row_size / 2**30:.1f} GiB, and there is not "
                "enough memory; use a smaller buffer_size"
            ) from error
        spans, desired = np.zeros((MIN_SPANS, 5), np.int64), np.zeros((MIN_SPANS, 2), self._goal_bytes)
        self.stored = Stored(first, first, 0, 0, 0, 0, steps, spans, states, desired, {})

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        stored = self.stored
        parts = stored.steps, stored.goal_spans, *stored.states, stored.desired, *stored.infos.values()
        return sum(int(part.nbytes) for part in parts if part is not None)

    @property
    def equal_to_goal(self) -> set[int]:
        """Indices of observation leaves (arrays) that are not stored, since they equal the achieved goals."""
        states, places = self.stored.states, enumerate(self._observed)
        return {i for i, place in places if place.records is not None and states[place.records] is None}

    def validate(self, episodes: Episodes) -> Episodes:
        """Return ``episodes`` in the dtypes of the spaces, with the infos to store, or raise ValueError."""
        num_steps, longest = len(episodes.rewards), int(episodes.lengths.max())
        if longest > self.buffer_size:
            raise ValueError(
                f"an episode must fit the buffer of {self.buffer_size} transitions, got {longest} steps; "
                "increase buffer_size=, or cut episodes with EpisodeRecorder(max_episode_steps=)"
            )
        rewards = episodes.rewards
        if not float(np.vdot(rewards, rewards)) < FLOAT32_OVERFLOW:  # also for NaN
            bad = ~(np.abs(rewards.astype(np.longdouble)) < FLOAT32_OVERFLOW)
            _reject_rows("rewards", rewards, bad, "finite as float32")
        owner, num_states = "the episode", num_steps + len(episodes.lengths)
        observations, actions = episodes.observations, episodes.actions
        observations = self.observations.check_rows(observations, num_states, owner, inspect=_reject_nan)
        actions = self.actions.check_rows(actions, num_steps, owner, rounding=True, inspect=_reject_nan)
        for leaf, start, most in self._choices:
            values = leaf.find(actions, owner)
            shifted = values - start if start.any() else values
            if (outside := shifted.view(most.dtype) > most).any():  # negative values are large unsigned ones
                step = int(outside.reshape(num_steps, -1).any(1).argmax())
                expected = f"from {start} to {start + most.astype(start.dtype)}"
                raise ValueError(f"{leaf.name} must be {expected}, got {values[step]} at step {step}")
        infos = {key: self._check_info(key, episodes.infos, num_steps) for key in self._info_keys}
        changed = {"observations": observations, "actions": actions, "infos": infos, "reset_infos": ()}
        return unchecked(Episodes, **vars(episodes) | changed)

    def _check_info(self, key: str, infos: Mapping[str, np.ndarray], num_steps: int) -> np.ndarray:
        if key not in infos:
            fix = f"record it with EpisodeRecorder(info_keys=[{key!r}])"
            raise ValueError(f"the episode has no info {key!r}, which is in the buffer's info_keys; {fix}")
        column = np.asarray(infos[key])
        name, shape = f"infos[{key!r}]", (num_steps, *self.stored.infos.get(key, column).shape[1:])
        if column.dtype.kind not in NUMBERS:
            fix = f"remove {key!r} from info_keys"
            raise ValueError(f"{name} must be numbers, got dtype {column.dtype}; {fix}")
        if column.shape != shape:
            raise ValueError(
                f"{name} must have shape {shape}, got {column.shape}: a row for each step of the episode, "
                "and rows of the shape that the buffer stores already; correct this info of the episode"
            )
        return column

    def add(self, episodes: Episodes, goal_independent: np.ndarray) -> None:
        """Store n validated episodes, and evict as many of the oldest stored episodes as needed.

        ``goal_independent``, (n,) bool, marks episodes that terminated independently of their goal. Of more
        than ``buffer_size`` steps, the oldest are numbered but not stored.
        """
        size = self.buffer_size
        num_steps, skipped = len(episodes.rewards), 0
        first_left = min(self.stored.end + num_steps - size, self.stored.end)
        if num_steps > size:
            number = int(episodes.ends.searchsorted(num_steps - size))
            skipped = int(episodes.ends[number])
            episodes, goal_independent = episodes[number:], goal_independent[number:]
            num_steps -= skipped
        observed = [leaf.find(episodes.observations, "") for leaf in self.observations]
        span_bounds = self._span_bounds(episodes, observed)
        num_states, num_spans = num_steps + len(episodes.lengths), len(span_bounds) - 1
        stored = self._without(self._with_columns(self.stored, episodes, observed), first_left)
        if skipped:
            stored = stored._replace(first=stored.first + skipped, end=stored.end + skipped)
        stored = self._with_room(stored, num_states, num_spans)
        capacity = len(stored.states[0])

        rewards = episodes.rewards.astype(np.float32)
        rows_of_steps = (stored.end_state + episodes.state_of_step) % capacity
        spans, goals = self._make_spans(stored, episodes, goal_independent, observed, span_bounds)
        span_slots = (stored.end_span + np.arange(num_spans)) % len(stored.goal_spans)
        span_of_step = span_slots.repeat(span_bounds[1:] - span_bounds[:-1])

        # This evicts the oldest episodes, so that the rows written next are not in use. From here on nothing
        # large is allocated, since a MemoryError must not lose the evicted episodes.
        self.stored = stored
        state_slices = ring_slices(stored.end_state, num_states, capacity)
        for place, values in zip(self._observed, observed, strict=True):
            records = None if place.records is None else stored.states[place.records]
            if records is not None:
                for rows, part in state_slices:
                    records[place.field][rows] = values[part]
        steps = stored.states[1]
        for place in self._acted:
            steps[place.field][rows_of_steps] = place.leaf.find(episodes.actions, "")
        steps["reward"][rows_of_steps] = rewards
        stored.goal_spans[span_slots] = spans
        stored.desired[span_slots] = goals
        for slots, part in ring_slices(stored.end, num_steps, size):
            stored.steps[slots] = span_of_step[part]
            for key, column in stored.infos.items():
                column[slots] = episodes.infos[key][part]
        # This makes the new episodes visible.
        self.stored = stored._replace(
            end=stored.end + num_steps,
            end_state=stored.end_state + num_states,
            end_span=stored.end_span + num_spans,
        )

    def _with_columns(self, stored: Stored, episodes: Episodes, observed: list[np.ndarray]) -> Stored:
        """Return ``stored``, extended by arrays that ``episodes`` need, for example one for a new info."""
        for place, values in zip(self._observed, observed, strict=True):
            is_alias = place.records is not None and stored.states[place.records] is None
            if is_alias and (row_bytes(values) != row_bytes(episodes.observations["achieved_goal"])).any():
                states = list(stored.states)  # the observation was equal to the achieved goal so far
                states[place.records] = np.zeros(len(states[0]), self._records[place.records])
                states[place.records]["0"] = states[0]["0"]
                stored = stored._replace(states=states)
        infos = dict(stored.infos)
        for key, new in episodes.infos.items():
            old = infos.get(key)
            if old is None:
                old = np.zeros((self.buffer_size, *new.shape[1:]), new.dtype)
            if old.dtype != new.dtype:  # integers, such as a cost of 0, may become floats
                in_use = old[np.arange(stored.first, stored.end) % self.buffer_size]
                concatenate_trees(f"infos/{key}", [in_use, new])  # raises ValueError unless exact
                old = old.astype(np.result_type(old.dtype, new.dtype))
            infos[key] = old
        return stored._replace(infos=infos) if episodes.infos else stored

    def _without(self, stored: Stored, number: int) -> Stored:
        """Return ``stored`` without the episodes that begin before the step ``number``."""
        if number <= stored.first:
            return stored
        last = stored.goal_spans[stored.steps[(number - 1) % self.buffer_size]]
        first = int(last[FIRST] + last[LENGTH])  # the step after the last episode to evict
        last_row, last_span = int(last[ROW] + last[LENGTH]), int(stored.steps[(first - 1) % self.buffer_size])
        first_state = stored.first_state + (last_row - stored.first_state) % len(stored.states[0]) + 1
        first_span = stored.first_span + (last_span - stored.first_span) % len(stored.goal_spans) + 1
        return stored._replace(first=first, first_state=first_state, first_span=first_span)

    def _with_room(self, stored: Stored, num_states: int, num_spans: int) -> Stored:
        """Return ``stored`` with room for ``num_states`` more states and ``num_spans`` more goal spans."""
        count, capacity = stored.end_state - stored.first_state + num_states, len(stored.states[0])
        if count > capacity:
            # T steps have T + 1 states, so twice as many rows as steps are always enough.
            larger = min(max(count, capacity * 5 // 4), 2 * self.buffer_size)
            numbers, spans = (stored.first_state, stored.end_state, larger), stored.goal_spans.copy()
            spans[:, ROW] = _moved(spans[:, ROW], stored.first_state, capacity, larger)
            states = [None if each is None else _resized(each, *numbers) for each in stored.states]
            stored = stored._replace(states=states, goal_spans=spans)
        count, capacity = stored.end_span - stored.first_span + num_spans, len(stored.goal_spans)
        if count > capacity:
            larger = max(count, capacity * 5 // 4)
            numbers = stored.first_span, stored.end_span, larger
            stored = stored._replace(
                steps=_moved(stored.steps, stored.first_span, capacity, larger).astype(stored.steps.dtype),
                goal_spans=_resized(stored.goal_spans, *numbers),
                desired=_resized(stored.desired, *numbers),
            )
        return stored

    def _span_bounds(self, episodes: Episodes, observed: list[np.ndarray]) -> np.ndarray:
        """Return an array: the index of the first step of each goal span, then the number of steps."""
        is_first = np.zeros(len(episodes.rewards) + 1, np.bool_)
        is_first[episodes.ends] = True
        for place, values in zip(self._observed, observed, strict=True):
            if place.records is None:
                rows = row_bytes(values)
                changed = (rows[1:] != rows[:-1])[episodes.state_of_step]
                is_first[:-1] |= changed  # a step that changes the desired goal is a goal span of its own
                is_first[1:] |= changed
        return is_first.nonzero()[0]

    def _make_spans(
        self,
        stored: Stored,
        episodes: Episodes,
        goal_independent: np.ndarray,
        observed: list[np.ndarray],
        bounds: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return new rows for `Stored.goal_spans` and `Stored.desired`, one for each goal span."""
        begins, ends = bounds[:-1], bounds[1:]
        states = episodes.state_of_step[begins]
        episode = states - begins
        first, length = episodes.ends[episode], episodes.lengths[episode]
        row = (stored.end_state + first + episode) % len(stored.states[0])
        flags = episodes.terminated + 2 * episodes.truncated + 4 * goal_independent
        columns = first + stored.end, row, length, flags[episode], ends + stored.end
        before_and_after, goals = states[:, None] + np.arange(2), np.zeros((len(begins), 2), self._goal)
        for place, values in zip(self._observed, observed, strict=True):
            if place.records is None:
                goals[place.field] = values[before_and_after]
        return np.array(columns, np.int64).T, goals.view(self._goal_bytes)

    def take_goals(
        self, goal_rows: np.ndarray, goal_spans: np.ndarray, num_achieved: int, num_relabeled: int
    ) -> np.ndarray:
        """Return the desired goals of B steps, (2, B) records: those before, and those after the steps."""
        # The first `num_achieved` steps get the achieved goals of the states in `goal_rows`. The next steps,
        # up to `num_relabeled`, get the desired goals after their `goal_spans`, the others both of these.
        stored, goals = self.stored, np.empty((2, len(goal_rows)), self._goal_bytes)
        achieved = stored.states[0].view(self._goal_bytes)
        goals[:, :num_achieved] = achieved.take(goal_rows[:num_achieved], 0, None, "wrap")
        goals[:, num_achieved:] = stored.desired.take(goal_spans[num_achieved:], 0, None, "wrap").T
        goals[0, num_achieved:num_relabeled] = goals[1, num_achieved:num_relabeled]
        return goals.view(self._goal)

    def take_steps(self, rows: np.ndarray, desired: np.ndarray) -> tuple[Any, Any, Any, Any]:
        """Return the observations, actions, rewards and next observations of B steps.

        ``rows``, (2, B), are the rows of the states before and after them; ``desired`` is from `take_goals`.
        """
        before: list[Any] = []
        after: list[Any] = []
        for records in self.stored.states:
            block = (None, None) if records is None else records.take(rows, 0, None, "wrap")
            before.append(block[0])
            after.append(block[1])
        actions, rewards = self._build(self.actions, self._acted, before), before[1]["reward"]
        if self._records[1].itemsize > LARGE_RECORD:
            actions, rewards = copy_tree(actions), rewards.copy()
        return (
            self._build(self.observations, self._observed, before, desired[0]),
            actions,
            rewards,
            self._build(self.observations, self._observed, after, desired[1]),
        )

    def _build(
        self, spec: SpaceSpec, places: Sequence[Place], blocks: Sequence[Any], desired: Any = None
    ) -> Any:
        """Return B elements of a space, as views of the records in ``blocks`` and ``desired``."""
        leaves = []
        for _, number, field in places:
            block = desired if number is None else blocks[number]
            # Without records, the leaf equals the achieved goal.
            leaves.append(blocks[0]["0"].copy() if block is None else block[field])
        if spec.flat_keys is not None:
            return dict(zip(spec.flat_keys, leaves, strict=True))
        return leaves[0] if spec.structure == 0 else spec.build(leaves)

    def take_infos(self, index: Any) -> dict[str, Any]:
        """Return copies of the infos of steps, given their step numbers."""
        infos, size = self.stored.infos, self.buffer_size
        return {key: column.take(index % size, 0, None, "wrap") for key, column in infos.items()}

    def episode_firsts(self) -> np.ndarray:
        """Return an array: the numbers of the first steps of the stored episodes, then ``stored.end``."""
        stored = self.stored
        slots = np.arange(stored.first_span, stored.end_span) % len(stored.goal_spans)
        return np.append(np.unique(stored.goal_spans[slots, FIRST]), stored.end)

    def episode_blocks(self) -> list[np.ndarray]:
        """Divide the stored episodes into blocks: arrays of the first steps, and the step after the last."""
        steps = max(1, READ_BYTES // (32 + self.row_size), self.stored.num_steps // MAX_BLOCKS)
        firsts = self.episode_firsts()
        cuts = np.flatnonzero(np.diff((firsts[:-1] - self.stored.first) // steps)) + 1
        cuts = np.array([0, *cuts, len(firsts) - 1])
        return [firsts[begin : end + 1] for begin, end in itertools.pairwise(cuts) if end > begin]

    def read_episodes(self, first: int, end: int) -> tuple[Episodes, np.ndarray]:
        """Return copies of the n episodes of the steps ``first`` to ``end`` - 1, and ``goal_independent``."""
        stored, index = self.stored, np.arange(first, end)
        span = stored.steps[index % self.buffer_size]
        spans = stored.goal_spans[span]
        begins = (index == spans[:, FIRST]).nonzero()[0]
        lengths = spans[begins, LENGTH]
        last = begins + lengths - 1
        state_of_step = np.arange(len(index)) + np.arange(len(begins)).repeat(lengths)
        num_states = len(index) + len(begins)

        rows = (spans[0, ROW] + np.arange(num_states)) % len(stored.states[0])
        blocks: list[Any] = [None if each is None else each.take(rows) for each in stored.states]
        pairs, desired = stored.desired[span], np.empty(num_states, self._goal_bytes)
        desired[state_of_step] = pairs[:, 0]
        desired[state_of_step[last] + 1] = pairs[last, 1]
        goals, steps = desired.view(self._goal), blocks[1][state_of_step]
        terminated, truncated, goal_independent = HAS_FLAG[:, spans[begins, FLAGS]]
        episodes = Episodes(
            observations=copy_tree(self._build(self.observations, self._observed, blocks, goals)),
            actions=copy_tree(self._build(self.actions, self._acted, [None, steps])),
            rewards=steps["reward"].copy(),
            lengths=lengths,
            terminated=terminated,
            truncated=truncated,
            infos=self.take_infos(index),
        )
        return episodes, goal_independent

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the stored episodes only, so that a pickle of an empty buffer is small."""
        blocks = [self.read_episodes(int(each[0]), int(each[-1])) for each in self.episode_blocks()]
        return self.__dict__ | {"stored": (self.stored.first, blocks)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state: allocate new memory, and copy the saved episodes into it."""
        first, blocks = state["stored"]
        self.__dict__.update(state)
        self.clear(first)
        for episodes, goal_independent in blocks:
            self.add(episodes, goal_independent)


def _record(leaves: Iterable[LeafSpec], **others: Any) -> np.dtype[Any]:
    """Return the dtype of records with the fields "0", "1", ... for ``leaves``, and with other fields."""
    fields = [(str(i), leaf.dtype, leaf.shape) for i, leaf in enumerate(leaves)]
    return np.dtype([*fields, *others.items()], align=True)  # torch needs aligned fields


def row_bytes(rows: np.ndarray) -> np.ndarray:
    """Return an (n,) array with the bytes of each row of an (n, ...) array, to compare whole rows."""
    size = math.prod(rows.shape[1:]) * rows.itemsize
    return np.ndarray(len(rows), (np.void, size), np.ascontiguousarray(rows))


def ring_slices(first: int, count: int, capacity: int) -> list[tuple[slice, slice]]:
    """Return one or two pairs: a slice of a ring, and the slice of ``count`` values that belong there."""
    slot = first % capacity
    until_end = min(count, capacity - slot)
    slices = [(slice(slot, slot + until_end), slice(0, until_end))]
    if until_end < count:
        slices.append((slice(0, count - until_end), slice(until_end, count)))
    return slices


def _resized(ring: np.ndarray, first: int, end: int, capacity: int) -> np.ndarray:
    """Return a ring of ``capacity`` slots with the numbers ``first`` to ``end`` - 1 of another ring."""
    resized = np.zeros((capacity, *ring.shape[1:]), ring.dtype)
    for numbers in np.array_split(np.arange(first, end), 64):  # parts, since indexing makes a copy
        resized[numbers % capacity] = ring[numbers % len(ring)]
    return resized


def _moved(slots: np.ndarray, first: int, capacity: int, new_capacity: int) -> np.ndarray:
    """Return the slots in a `_resized` ring for slots in the ring before; ``first`` is its first number."""
    moved: np.ndarray = (first + (slots.astype(np.int64) - first) % capacity) % new_capacity
    return moved


def _reject_nan(leaf: LeafSpec, values: np.ndarray) -> None:
    """Raise NotFiniteError for NaN in observations and actions, and for infinite goals."""
    _reject_rows(leaf.name, values, np.isnan(values), "numbers, not NaN")
    if leaf.path[:1] in GOAL_PATHS:
        _reject_rows(leaf.name, values, np.isinf(values), "finite")


def _reject_rows(name: str, values: np.ndarray, is_bad: np.ndarray, must: str) -> None:
    """Raise NotFiniteError, which names the first such row, if ``is_bad``, (n, ...), has a True element."""
    rows = is_bad.reshape(len(values), -1).any(axis=1)
    if rows.any():
        row = int(rows.argmax())
        got = values[row].tolist()
        raise NotFiniteError(
            f"{name} must be {must}, got {got} at step {row}; correct the environment, or leave out such "
            "episodes with on_error='skip' of the recorder or of extend()"
        )
