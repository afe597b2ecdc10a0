"""Lanes: the steps of N environments, as rows of tensors on a device. `DeviceReplayBuffer` samples from them.

Each environment has a *lane*, a ring of R rows. A row is a state with its desired goal. The last state of an
episode has a row too, so the next state is always in the next row. The rows of a lane are numbered without
end, and so are its steps and episodes; number i is in slot i % R of the lane. The step from the state in row
r to the state in row r + 1 is stored in row r::

    row        0   1   2  ..  T-1  T    T+1  T+2       episode 0 has T steps
    state      s0  s1  s2 ..       sT   s0'  s1'       sT: no step begins here
    step       0   1   2  ..  T-1       T    T+1       step number = row - number of the episode

Shapes never depend on data, and all counts are tensors, so no call that is made at every step waits for the
device. Demonstrations have one more lane, which has exactly the rows of their states, and never changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from her_wrappers.data.spaces import LeafSpec, SpaceSpec
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.batch import Batch
from her_wrappers.replay.relabeling import flags_of_steps
from her_wrappers.replay.tensors import torch_dtype

Blocks: TypeAlias = dict[torch.dtype, Tensor]  # values of rows, (B, width), by dtype


class SimulatorStep(NamedTuple):
    """One step of all N environments of a simulator, as tensors on its device.

    Attributes:
        observation: Dict of (N, ...) tensors ``observation``, ``achieved_goal``, ``desired_goal``, which the
            policy sees next. Where an episode ended, this is the first observation of the next episode.
        action: (N, ...) actions of the step.
        reward: (N,) float32 rewards.
        terminated: (N,) bool.
        truncated: (N,) bool.
        last_observation: The observation after the step and before any reset, for all N environments.
        info: Dict of (N, ...) tensors: the values that ``compute_reward`` reads from infos.
        first_observation: Observation that ``reset`` returned, in the first step after a reset; else None.
    """

    observation: Mapping[str, Any]
    action: Any
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    last_observation: Mapping[str, Any]
    info: Mapping[str, Tensor] = {}
    first_observation: Mapping[str, Any] | None = None


class Leaf(NamedTuple):
    """One array of a state or step, and its columns ``begin`` to ``end`` - 1 in the matrix of its dtype."""

    spec: LeafSpec
    dtype: torch.dtype
    begin: int
    end: int


class Columns(NamedTuple):
    """The end of each group of columns of a matrix: observation, achieved goal, desired goal, step."""

    observation: int  # end of the observation without its goals
    achieved: int
    desired: int
    step: int


class LaneSteps(NamedTuple):
    """B stored steps, as (B,) int64 tensors."""

    lane: Tensor
    number: Tensor  # number of the step in its lane
    row: Tensor  # row of the state before the step
    first: Tensor  # first row of the episode; it may have been evicted
    last: Tensor  # last row of the episode so far


class NewGoals(NamedTuple):
    """Sources of the new goals of B steps."""

    relabeled: Tensor  # (B,) bool, whether the step gets a new goal
    slots: Tensor  # (B,) slots of the states that supply the goals: their achieved goals,
    takes_desired: Tensor | None  # (B,) bool: or their desired goals

    def repeat(self, n: int) -> NewGoals:
        """Return each goal n times, in successive rows."""
        takes_desired = None if self.takes_desired is None else self.takes_desired.repeat_interleave(n)
        return NewGoals(self.relabeled.repeat_interleave(n), self.slots.repeat_interleave(n), takes_desired)


class Lanes:
    """Stores the last steps of N environments, and the steps of demonstrations."""

    def __init__(self, observation_space: spaces.Dict, action_space: Any, num_envs: int, device: Any) -> None:
        """Assign columns to all arrays, in the order of `Columns`; `allocate` completes the object."""
        self.num_envs, self.device = num_envs, device
        flag: Any = spaces.Box(0, 1, (), np.bool_)
        reward = spaces.Box(-np.inf, np.inf, (), np.float32)
        step = spaces.Dict(action=action_space, reward=reward, terminated=flag, truncated=flag)
        self._state, self._step = SpaceSpec.of("observation", observation_space), SpaceSpec.of("step", step)
        self._goal = SpaceSpec.of("desired_goal", observation_space["desired_goal"])
        goals = OBSERVATION_KEYS[1:]
        parts = [[leaf for leaf in self._state if leaf.path[0] not in goals]]
        parts += [[leaf for leaf in self._state if leaf.path[0] == key] for key in goals]
        widths: dict[torch.dtype, int] = {}
        places: dict[str, Leaf] = {}
        ends = []
        for part in (*parts, list(self._step)):
            for leaf in part:
                dtype = torch_dtype(leaf.name, leaf.dtype)
                begin = widths.get(dtype, 0)
                widths[dtype] = begin + math.prod(leaf.shape)
                places[leaf.name] = Leaf(leaf, dtype, begin, widths[dtype])
            ends.append(dict(widths))
        self._leaves = {spec.name: [places[leaf.name] for leaf in spec] for spec in (self._state, self._step)}
        self._columns = {dtype: Columns(*(end.get(dtype, 0) for end in ends)) for dtype in widths}
        sizes = (columns.step * dtype.itemsize for dtype, columns in self._columns.items())
        self.bytes_per_row = sum(sizes) + 4 * 8  # and the four integers of `allocate`

    def allocate(self, states: int, num_demonstrations: int = 0, num_demonstrated_episodes: int = 0) -> None:
        """Allocate ``states`` rows for each environment, and a row for each state of demonstrations."""
        self.num_demonstrations = num_demonstrations
        self.num_demonstrated_episodes = num_demonstrated_episodes
        # `_write_first_states` writes one state too many in the lanes whose episodes continue.
        self._size = states + 1
        slots = self.num_envs * self._size + num_demonstrations + num_demonstrated_episodes
        try:
            widths = {dtype: columns.step for dtype, columns in self._columns.items()}
            self._rows = {dtype: self._zeros(slots, width, dtype=dtype) for dtype, width in widths.items()}
            self._episode_of_row, self._row_of_step = self._zeros(slots), self._zeros(slots)
            self._spans = self._zeros(slots, 2)  # of each episode: its first and last row
        except (RuntimeError, MemoryError) as error:  # torch has no MemoryError of its own
            raise MemoryError(
                f"not enough memory on {self.device} for {slots * self.bytes_per_row / 1e9:.3g} GB; reduce "
                "steps_per_env=, or pass max_bytes="
            ) from error
        self._infos: dict[str, Tensor] = {}  # allocated by the first step, which has their shapes
        self._lane_numbers = torch.arange(self.num_envs, device=self.device)
        self._first_slots = self._lane_numbers * self._size
        # For each lane: next row, next step, oldest stored row, oldest stored step, and the number of stored
        # steps of this and all earlier lanes; then the present episode, and the first invalid step or -1.
        self._next_row, self._next_step, self._oldest_row, self._oldest_step, self._ends = (
            self._zeros(self.num_envs) for _ in range(5)
        )
        self._episode, self._invalid = (self._zeros(self.num_envs) - 1 for _ in range(2))

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    # --- writing ----------------------------------------------------------------------------------

    def add(self, step: SimulatorStep, info_keys: tuple[str, ...], max_steps: int) -> None:
        """Add a step to each lane, and keep its last ``max_steps`` steps; see `DeviceReplayBuffer.add`."""
        names = ("action", "reward", "terminated", "truncated")
        values = self._blocks({name: getattr(step, name) for name in names}, self._step)
        states = step.last_observation, step.observation
        last, following = (self._blocks(each, self._state) for each in states)
        shapes = {key: tuple(values.shape[1:]) for key, values in self._infos.items()}  # of the first step
        infos = {
            key: self._checked(f"info {key!r}", step.info.get(key), None, shapes.get(key))
            for key in info_keys
        }
        if step.first_observation is not None:
            self.begin_episodes(step.first_observation, None, max_steps)
        row = self._next_row - 1
        here = self._slots(row)
        for dtype, block in values.items():
            self._rows[dtype][:, self._columns[dtype].desired :].index_copy_(0, here, block)
        for key, value in infos.items():
            column = self._info_column(key, value)
            column.index_copy_(0, here, value.to(column.dtype))
        self._row_of_step.index_copy_(0, self._slots(self._next_step), row)
        self._write_states(last, self._episode)
        self._spans[:, 1].index_copy_(0, self._slots(self._episode), self._next_row)
        is_invalid = ~step.reward.isfinite()
        for blocks in (values, last):
            for dtype, block in blocks.items():
                if dtype.is_floating_point:
                    is_invalid |= block.isnan().any(1)
                    if blocks is last:  # goals must be finite too
                        is_invalid |= block[:, self._columns[dtype].observation :].isinf().any(1)
        self._invalid.copy_(torch.where(is_invalid & (self._invalid < 0), self._next_step, self._invalid))
        self._next_row += 1
        self._write_first_states(following, step.terminated | step.truncated, max_steps)

    def begin_episodes(self, observation: Mapping[str, Any], mask: Tensor | None, max_steps: int) -> None:
        """Begin new episodes in some lanes; see `DeviceReplayBuffer.begin_episodes`."""
        blocks = self._blocks(observation, self._state)
        began = self._lane_numbers >= 0 if mask is None else self._checked("mask", mask, torch.bool, ())
        first = self._spans[self._slots(self._episode), 0]
        is_open = began & (self._next_row - 1 > first)
        flags = self._rows[torch.bool][:, -2:]  # terminated and truncated
        previous = self._slots(self._next_row - 2)
        truncated = flags[previous, 1] | (is_open & ~flags[previous, 0])
        flags[:, 1].index_copy_(0, previous, truncated)
        self._write_first_states(blocks, began, max_steps)

    def _write_first_states(self, blocks: Blocks, began: Tensor, max_steps: int) -> None:
        """Write a state to the next row of each lane; where not ``began``, (N,) bool, it has no meaning."""
        self._write_states(blocks, self._episode + 1)
        span = self._next_row[:, None].expand(-1, 2)
        self._spans.index_copy_(0, self._slots(self._episode + 1), span)
        self._next_row += began
        self._episode += began
        self._next_step.copy_(self._next_row - 1 - self._episode)
        self._oldest_row.copy_((self._next_row + 1 - self._size).clamp(min=0))
        oldest = self._oldest_row - self._episode_of_row[self._slots(self._oldest_row)]
        self._oldest_step.copy_(oldest.maximum(self._next_step - max_steps))
        self._ends.copy_((self._next_step - self._oldest_step).cumsum(0))

    def _slots(self, number: Tensor) -> Tensor:
        """Return (N,) slots, for one row, step or episode ``number`` of each lane; see also `find`."""
        return self._first_slots + number % self._size

    def _write_states(self, blocks: Blocks, episode: Tensor) -> None:
        slots = self._slots(self._next_row)
        for dtype, values in blocks.items():
            self._rows[dtype][:, : self._columns[dtype].desired].index_copy_(0, slots, values)
        self._episode_of_row.index_copy_(0, slots, episode)

    def _info_column(self, key: str, like: Tensor) -> Tensor:
        """Return the tensor of an info, which is allocated at the first call, with the dtype of ``like``."""
        if key not in self._infos:
            self._infos[key] = self._zeros(len(self._spans), *like.shape[1:], dtype=like.dtype)
        return self._infos[key]

    def _blocks(self, tree: Any, spec: SpaceSpec) -> Blocks:
        """Return N states or steps as one matrix (N, width) per dtype, with the columns of the lanes."""
        parts: dict[torch.dtype, list[Tensor]] = {}
        for leaf, dtype, begin, end in sorted(self._leaves[spec.name], key=lambda leaf: leaf.begin):
            value = self._checked(leaf.name, leaf.find(tree, "in the step"), dtype, leaf.shape)
            parts.setdefault(dtype, []).append(value.reshape(self.num_envs, end - begin))
        return {dtype: torch.cat(values, 1) for dtype, values in parts.items()}

    def _checked(
        self, name: str, value: Any, dtype: torch.dtype | None = None, shape: tuple[int, ...] | None = None
    ) -> Tensor:
        """Return ``value`` without its graph; raise an error unless it has N rows of this dtype and shape."""
        if not isinstance(value, Tensor) or value.dtype != (dtype or value.dtype):
            got = value.dtype if isinstance(value, Tensor) else type(value).__name__
            expected_type = f"a tensor of {dtype or 'numbers'}"
            raise TypeError(f"{name} must be {expected_type}, got {got}; pass such a tensor to the buffer")
        expected = (self.num_envs, *(value.shape[1:] if shape is None else shape))
        if value.device != self.device or tuple(value.shape) != expected:
            raise ValueError(
                f"{name} must have shape {expected}, a row for each environment, on {self.device}, got "
                f"{tuple(value.shape)} on {value.device}"
            )
        return value.detach()

    def add_demonstrations(self, episodes: Episodes, info_keys: tuple[str, ...]) -> None:
        """Write the demonstrations ``episodes`` to their lane."""

        def tensor(values: Any) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

        number, row, base = np.arange(len(episodes)), episodes.state_of_step, self.num_envs * self._size
        first = episodes.ends[:-1] + number
        self._episode_of_row[base:] = tensor(number.repeat(episodes.lengths + 1))
        self._spans[base : base + len(number)] = tensor(np.stack((first, first + episodes.lengths), 1))
        self._row_of_step[base : base + len(row)] = tensor(row)
        flags = ("terminated", "truncated")
        step = {name: flags_of_steps(episodes, getattr(episodes, name)) for name in flags}
        step |= {"action": episodes.actions, "reward": episodes.rewards.astype(np.float32)}
        states = np.arange(len(row) + len(number))
        for tree, spec, rows in ((episodes.observations, self._state, states), (step, self._step, row)):
            checked, slots = spec.check_rows(tree, len(rows), "the demonstrations"), tensor(base + rows)
            for leaf, dtype, begin, end in self._leaves[spec.name]:
                values = leaf.find(checked, "").reshape(len(rows), end - begin)
                self._rows[dtype][slots, begin:end] = tensor(values)
        for key in info_keys:
            values = tensor(episodes.infos[key])
            self._info_column(key, values)[tensor(base + row)] = values

    # --- reading ----------------------------------------------------------------------------------

    def draw(self, random: Tensor, is_demonstration: Tensor | None = None) -> LaneSteps:
        """Return the stored steps, or steps of demonstrations, at (B,) fractions in [0, 1) of all of them."""
        count = (random * self._ends[-1]).long()
        lane = torch.searchsorted(self._ends, count, right=True)
        number = self._next_step[lane] - (self._ends[lane] - count)
        if is_demonstration is not None:
            lane = torch.where(is_demonstration, self.num_envs, lane)
            number = torch.where(is_demonstration, (random * self.num_demonstrations).long(), number)
        row = self._row_of_step[self.find(lane, number)]
        episode = self._episode_of_row[self.find(lane, row)]
        first, last = self._spans[self.find(lane, episode)].unbind(1)
        return LaneSteps(lane, number, row, first, last)

    def find(self, lane: Tensor, number: Tensor) -> Tensor:
        """Return the (B,) slots of rows, steps or episodes, given their lanes and numbers, both (B,)."""
        in_ring = number % self._size
        if self.num_demonstrations:  # their lane is not a ring
            in_ring = torch.where(lane < self.num_envs, in_ring, number)
        return lane * self._size + in_ring

    def slots_of(self, steps: LaneSteps) -> tuple[Tensor, Tensor]:
        """Return two (B,) tensors: the slots of the states before and after each step."""
        return self.find(steps.lane, steps.row), self.find(steps.lane, steps.row + 1)

    def slots_of_steps(self, lane: Tensor, index: Tensor) -> Tensor:
        """Return the slots of the states before steps, given their lanes and step numbers, see `index`."""
        number = torch.where(lane < self.num_envs, (index - self.num_demonstrations) // self.num_envs, index)
        return self.find(lane, self._row_of_step[self.find(lane, number)])

    def index(self, lane: Tensor, number: Tensor) -> Tensor:
        """Return step numbers, as in `Batch.index`, from lanes and numbers of steps within their lanes."""
        index = number * self.num_envs + lane + self.num_demonstrations
        return torch.where(lane < self.num_envs, index, number) if self.num_demonstrations else index

    def first_stored_row(self, steps: LaneSteps) -> Tensor:
        """Return the row of the oldest stored state in the episode of each step."""
        oldest = self._oldest_row[steps.lane.clamp(max=self.num_envs - 1)]
        return torch.where(steps.lane < self.num_envs, steps.first.maximum(oldest), steps.first)

    def same_goals(self, before: Tensor, after: Tensor) -> Tensor:
        """Return (B, n) bool: whether slot ``after[i, j]`` has the desired goal of slot ``before[i]``."""
        same = torch.ones_like(after, dtype=torch.bool)
        for dtype, columns in self._columns.items():
            desired = self._rows[dtype][:, columns.achieved : columns.desired]
            same &= (desired[after] == desired[before][:, None]).all(2)
        return same

    def read(
        self, slots: tuple[Tensor, Tensor], index: Tensor, gamma: float, goals: NewGoals | None = None
    ) -> Batch[Tensor]:
        """Return a batch of the steps between pairs of slots, with new goals, but with recorded rewards."""
        here, there = ({dtype: rows[each] for dtype, rows in self._rows.items()} for each in slots)
        for dtype, (observation, achieved, desired, _) in self._columns.items():
            if goals is not None and desired > achieved:
                goal = self._rows[dtype][:, observation:achieved][goals.slots]
                if goals.takes_desired is not None:
                    others = self._rows[dtype][:, achieved:desired][goals.slots]
                    goal = torch.where(goals.takes_desired[:, None], others, goal)
                for block in (here[dtype][:, achieved:desired], there[dtype][:, achieved:desired]):
                    block.copy_(torch.where(goals.relabeled[:, None], goal, block))
        step = self._tree(self._step, here)
        weights = torch.ones_like(index, dtype=torch.float32)
        return Batch(
            self._tree(self._state, here),
            step["action"],
            step["reward"],
            self._tree(self._state, there),
            step["terminated"],
            step["truncated"],
            weights * gamma,
            weights,
            torch.zeros_like(step["terminated"]) if goals is None else goals.relabeled,
            index,
        )

    def desired_goal(self, slots: Tensor) -> Any:
        """Return the recorded desired goals of the states in ``slots``."""
        leaves = [leaf for leaf in self._leaves[self._state.name] if leaf.spec.path[0] == "desired_goal"]
        return self._goal.build([
            self._rows[dtype][:, i:j][slots].reshape(len(slots), *leaf.shape) for leaf, dtype, i, j in leaves
        ])

    def _tree(self, spec: SpaceSpec, blocks: Blocks) -> Any:
        """Return B states or steps as a tree of (B, ...) tensors, from the columns of ``blocks``."""
        count, leaves = len(blocks[torch.float32]), self._leaves[spec.name]
        return spec.build([blocks[dtype][:, i:j].reshape(count, *leaf.shape) for leaf, dtype, i, j in leaves])

    def infos(self, slots: Tensor) -> dict[str, Tensor]:
        """Return the infos of the steps in ``slots``, by key."""
        return {key: values[slots] for key, values in self._infos.items()}

    # --- calls that wait for the device -----------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of stored steps, without demonstrations."""
        return int(self._ends[-1])

    def spread(self, count: int) -> LaneSteps:
        """Return ``count`` stored steps at equal distances; if ``count`` is ``len(self)``, all steps."""
        numbers = torch.arange(count, dtype=torch.float64, device=self.device)
        return self.draw((numbers + 0.5) / count)

    def require_valid(self) -> None:
        """Raise ValueError if an invalid value was added."""
        lanes = (self._invalid >= 0).nonzero()[:, 0].tolist()
        if lanes:
            raise ValueError(
                f"step {int(self._invalid[lanes[0]])} of environment {lanes[0]} has a NaN, an infinite goal "
                f"or an infinite reward ({len(lanes)} of {self.num_envs} environments have such steps); let "
                "the simulator end and reset such an episode before its values reach add()"
            )

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors, by the names that they have in a file."""
        names = (
            "episode_of_row row_of_step spans next_row next_step oldest_row oldest_step ends episode invalid"
        )
        return {
            **{name: getattr(self, f"_{name}") for name in names.split()},
            **{f"rows {dtype}": rows for dtype, rows in self._rows.items()},
            **{f"info {key}": values for key, values in self._infos.items()},
        }

    def packed(self) -> dict[str, Tensor]:
        """Return `tensors` without the slots that were never used, for a file."""
        used = min(self._size, int(self._next_row.max()) + 1)
        packed = self.tensors()
        for name, tensor in packed.items():
            if len(tensor) > self.num_envs:  # else one value for each lane
                lanes, others = self._split(tensor, self._size)
                packed[name] = torch.cat([lanes[:, :used].flatten(0, 1), others])
        return packed

    def restore(self, name: str, values: Tensor) -> None:
        """Copy ``values``, the tensor ``name`` of `packed`, into this object."""
        if name.startswith("info "):
            self._info_column(name.removeprefix("info "), values)
        tensor = self.tensors()[name]
        if len(tensor) == self.num_envs:  # one value for each lane
            tensor.copy_(values)
        else:
            used = (len(values) - self.num_demonstrations - self.num_demonstrated_episodes) // self.num_envs
            (lanes, others), saved = self._split(tensor, self._size), self._split(values, used)
            lanes[:, :used].copy_(saved[0])
            others.copy_(saved[1])

    def _split(self, tensor: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Return views of the ``size`` slots of each lane, (N, size, ...), and of slots of demonstrations."""
        end = self.num_envs * size
        return tensor[:end].view(self.num_envs, size, *tensor.shape[1:]), tensor[end:]
