"""The storage of a buffer on a torch device.

The index stays on the host, where the indices of batches are sampled. Records, desired goals and infos are on
the device, as the same rows of bytes as on the host: a batch gathers whole rows, and its fields are views of
the result.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.byte_rows import Records, StoredSteps
from her_wrappers.replay.layout import StepLayout
from her_wrappers.replay.n_step import NStepWindows
from her_wrappers.replay.relabeling import recorded_batch
from her_wrappers.replay.rewards import TOLERANCE, GoalTransition
from her_wrappers.replay.storage import EpisodeStorage
from her_wrappers.replay.torch_records import (
    TensorRecords,
    TensorRing,
    empty_bytes,
    take_row_bytes,
    to_tensor,
    torch_dtype,
)
from her_wrappers.spaces import SpaceSpec, leaf_spaces
from her_wrappers.trees import leaf_arrays, map_tree
from her_wrappers.user_warning import warn_user

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import DTypeLike

    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.episode_index import SampledIndices
    from her_wrappers.replay.relabeling import Relabeler
    from her_wrappers.trees import Tree

INFO_DTYPES = np.float64, np.int64, np.bool_
MAX_INFO_KEYS = 3
"""With more infos, there are too many combinations of their dtypes to try."""


def make_storage(
    name: str | torch.device, layout: StepLayout, buffer_size: int, relabeler: Relabeler | None
) -> tuple[EpisodeStorage, torch.device]:
    """Return a storage and the device of the batches.

    The storage is on the device if all functions of the user take tensors on the device, or if nothing is
    relabeled; else it is on the host.

    Args:
        name: Device of the batches.
        layout: Dtypes of the records.
        buffer_size: Number of steps that can be stored.
        relabeler: Relabeler with the user's functions, or None if nothing is relabeled.

    Raises:
        MemoryError: Not enough memory.
        TypeError: torch does not support a dtype of the spaces.
        ValueError: torch cannot use the device.
    """
    device, reason = find_device(name), None
    for leaf, dtype in layout.dtypes().items():
        torch_dtype(leaf, dtype)
    if relabeler is not None:
        reason = incompatibility(relabeler, layout, device)
    if reason is None:
        return TorchStorage(layout, buffer_size, device), device
    if device.type != "cpu":  # on the CPU, the copy costs nothing
        warn_user(
            f"transitions are stored and relabeled on the host, and each batch is copied to {device}, since "
            f"{reason}; use functions that take tensors as well as arrays to keep everything on the device"
        )
    return EpisodeStorage(layout, buffer_size), device


def find_device(name: str | torch.device) -> torch.device:
    """Return the torch device with this name, including its index, as in ``cuda:0``.

    Raises:
        ValueError: torch does not know the device, or cannot use it.
    """
    try:
        probe = torch.zeros(1, dtype=torch.uint8, device=torch.device(name))
        probe.cpu()  # fails for a device that holds no data, such as "meta"
    except (RuntimeError, AssertionError, TypeError) as error:  # AssertionError: torch without CUDA
        available = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        available += ["mps"] * torch.backends.mps.is_available()
        names = ", ".join(map(repr, available))
        raise ValueError(f"device must be one that torch can use here, {names}, got {name!r}") from error
    return probe.device


class TorchStorage(EpisodeStorage):
    """Complete episodes on a torch device, see `EpisodeStorage`.

    Args:
        layout: Dtypes of the records.
        buffer_size: Number of steps that can be stored.
        device: Device of the records.

    Raises:
        MemoryError: Not enough memory on the device.
    """

    on_device = True

    def __init__(self, layout: StepLayout, buffer_size: int, device: torch.device) -> None:
        self._device = device
        self.location = f"on {device} "
        super().__init__(layout, buffer_size)

    def gather(self, serials: Any, states: Any, desired: Records) -> StoredSteps:
        """Return copies of steps, given tensors of serial numbers and slots; see `EpisodeStorage.gather`."""
        memory = self.memory
        infos = None if memory.infos is None else memory.infos.take(serials % memory.infos.capacity)
        return StoredSteps(memory.states.take(states), desired, infos)

    def desired_goals(self, goal_states: Any, segment_slots: Any, num_new: int = 0) -> Records:
        """Return desired goals, given tensors of slots; see `EpisodeStorage.desired_goals`."""
        dtype, count = self.memory.layout.goal_dtype, len(goal_states)
        rows = empty_bytes((2, count + len(segment_slots), dtype.itemsize), self._device)
        rows[:, :count] = take_row_bytes(self.memory.states.memory[:, : dtype.itemsize], goal_states)
        recorded = self.memory.desired.take(segment_slots).rows
        rows[:, count:] = recorded.view(len(segment_slots), 2, dtype.itemsize).transpose(0, 1)
        if num_new:
            rows[0, count : count + num_new] = rows[1, count : count + num_new]
        return TensorRecords(rows, dtype)

    def same_goals(self, states: np.ndarray, goal_states: np.ndarray, segments: np.ndarray) -> np.ndarray:
        """Compare achieved goals, see `EpisodeStorage.same_goals`; waits for the device."""
        dtype, capacity = self.memory.layout.goal_dtype, self.memory.states.capacity
        slots, goal_slots = (self.to_device(offsets % capacity) for offsets in (states, goal_states))
        goals = self.desired_goals(goal_slots, self.to_device(segments)).rows[1]
        equal = self.desired_goals(slots, slots[:0]).rows[1] == goals
        same = torch.ones(len(states), dtype=torch.bool, device=self._device)
        fields: Mapping[str, Any] = dtype.fields or {}
        for part, begin in fields.values():
            same &= equal[:, begin : begin + part.itemsize].all(-1)
        result: np.ndarray = same.cpu().numpy()
        return result

    def read(self, serials: np.ndarray) -> StoredSteps:
        """Return copies of steps as they were recorded, as NumPy arrays."""
        refs = self.memory.index.locate(serials)
        states = np.stack([refs.states, refs.states + 1]) % self.memory.states.capacity
        desired = self.desired_goals(self.to_device(serials[:0]), self.to_device(refs.segment_slots))
        steps = self.gather(self.to_device(serials), self.to_device(states), desired)
        return StoredSteps(*[None if each is None else each.to_numpy() for each in steps])

    def to_device(self, values: np.ndarray) -> Any:
        """Return an array as a tensor on the device."""
        return to_tensor(self._device, are_arrays=True)(values)

    def filled(self, count: int, value: float) -> Any:
        """Return a (count,) float32 tensor filled with one value, on the device."""
        return torch.full((count,), value, dtype=torch.float32, device=self._device)

    def indices_to_device(self, sampled: SampledIndices) -> SampledIndices:
        """Copy the indices that are needed to gather batches to the device, in two transfers.

        Offsets are converted to slots, since torch does not support negative indices here.
        """
        capacity = self.memory.states.capacity
        takes_achieved = np.arange(sampled.serials.shape[1]) < np.array(sampled.num_achieved)[:, None]
        goals = np.where(takes_achieved, sampled.goal_states % capacity, sampled.segment_slots)
        states = np.moveaxis(sampled.states % capacity, 1, 0)
        columns = np.stack([sampled.serials, *states, goals], axis=1)
        with torch.inference_mode(False):  # tensors that can be used outside of inference mode too
            rows, is_relabeled = self.to_device(columns), self.to_device(sampled.is_relabeled)
        return sampled._replace(
            serials=rows[:, 0],
            states=rows[:, 1:3],
            goal_states=rows[:, 3],
            segment_slots=rows[:, 3],
            is_relabeled=is_relabeled,
        )

    def state_pairs(self, before: Any, after: Any) -> Any:
        """Return the (2, B) slots of states, for `gather`."""
        return torch.stack((before, after)) % self.memory.states.capacity

    def make_windows(self, steps_left: np.ndarray, n_steps: int) -> NStepWindows:
        """Return the windows of n steps that begin at sampled steps."""
        return TorchWindows(steps_left, n_steps, self._device)

    def _new_ring(self, capacity: int, dtype: DTypeLike) -> TensorRing:
        return TensorRing(capacity, dtype, self._device)


class TorchWindows(NStepWindows):
    """Windows of n steps, summed on a torch device; see `NStepWindows`.

    Args:
        steps_left: (B,) number of stored steps that each window may contain, as a NumPy array.
        n_steps: Maximum number of steps of a window.
        device: Device of the steps.
    """

    def __init__(self, steps_left: np.ndarray, n_steps: int, device: torch.device) -> None:
        self.width = min(n_steps, int(steps_left.max()))
        left, order = to_tensor(device, are_arrays=True)(steps_left), torch.arange(self.width, device=device)
        self._ahead = torch.minimum(order, left[:, None] - 1)
        self._within = order[:, None] < left

    def repeat_rows(self, rows: Any) -> Any:
        """Repeat each of (..., B) rows for all steps of its window: (..., B * W)."""
        if isinstance(rows, TensorRecords):
            return rows.repeat_rows(self.width)
        return rows.repeat_interleave(self.width, dim=-1)

    def _by_step(self, values: Any) -> Any:
        return values.reshape(-1, self.width).T

    def _exponents(self) -> Any:
        return torch.arange(self.width + 1, dtype=torch.float64, device=self._within.device)

    def _require_finite(self, sums: Any) -> None:
        """Do nothing, since a check would wait for the device."""

    def _as_float32(self, values: Any) -> Any:
        return values.float()


def incompatibility(relabeler: Relabeler, layout: StepLayout, device: torch.device) -> str | None:
    """Return the reason why functions are called with arrays on the host; None if all of them take tensors.

    Each function is tried for two steps, with arrays and with tensors.

    Args:
        relabeler: Relabeler with the user's functions.
        layout: Dtypes of the steps.
        device: Device of the tensors.
    """
    if layout.info_keys and relabeler.info_format == "list":
        return "info_format='list' makes a dict for each row"
    if len(layout.info_keys) > MAX_INFO_KEYS:
        return f"there are more than {MAX_INFO_KEYS} info_keys"
    if relabeler.loops_over_rows:
        return "compute_terminated takes single goals only, or raises without infos"
    samples = dummy_transitions(relabeler, layout)
    for name, function in relabeler.user_functions().items():
        expected = [(sample, _call(function, *sample)) for sample in samples]
        known = [(sample, result) for sample, result in expected if result.error is None]
        reason: str | None = None
        if not known:
            reason = f"raises for arrays of example values: {_described(expected[0][1].error)}"
        for sample, result in known:
            reason = reason or _difference(function, sample, result, device)
        if reason is not None:
            return reason if reason.startswith(name) else f"{name} {reason}"
    return None


class _ProbeResult(NamedTuple):
    """Result of a function, or the error that it raised, and whether it warned."""

    values: Any
    error: Exception | None
    has_warned: bool


def _call(
    function: Callable[[GoalTransition, Batch], Any], transition: GoalTransition, batch: Batch
) -> _ProbeResult:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return _ProbeResult(function(transition, batch), None, bool(caught))
        except Exception as error:  # a user's function may raise anything
            return _ProbeResult(None, error, has_warned=False)


def _difference(
    function: Callable[[GoalTransition, Batch], Any],
    sample: tuple[GoalTransition, Batch],
    expected: _ProbeResult,
    device: torch.device,
) -> str | None:
    """Describe a difference between the results for tensors and for arrays; None if they are equal."""
    convert = to_tensor(device, are_arrays=True)

    def to_device(tree: Tree) -> Any:
        return map_tree(lambda leaf: convert(np.array(leaf)), tree)

    achieved_goal, desired_goal, info, terminated, goal_independent = sample[0]
    transition = GoalTransition(
        to_device(achieved_goal),
        to_device(desired_goal),
        info if isinstance(info, list) else to_device(info),  # a list of empty dicts
        to_device(terminated),
        to_device(goal_independent),
    )
    batch = sample[1].map(lambda leaf: convert(np.array(leaf)))
    arguments = [*transition[:2], batch.observations, batch.actions, batch.next_observations]
    tensors: list[Any] = [leaf for tree in arguments for leaf in leaf_arrays(tree)]
    before = [tensor.clone() for tensor in tensors]
    result = _call(function, transition, batch)
    if result.error is not None:
        return _described(result.error)
    if result.has_warned and not expected.has_warned:
        return "warns if it gets tensors"
    if not all(map(torch.equal, before, tensors)):
        return "writes to its arguments"
    values = result.values.cpu().numpy()
    if not np.allclose(expected.values, values, rtol=TOLERANCE, atol=TOLERANCE):
        return f"returns {values.tolist()} for tensors and {expected.values.tolist()} for arrays"
    return None


def _described(error: Exception | None) -> str:
    # The message about a wrong result is a sentence that begins with the function's name.
    return str(error) if "must return" in str(error) else f"raises {type(error).__name__}: {error}"


def dummy_transitions(relabeler: Relabeler, layout: StepLayout) -> list[tuple[GoalTransition, Batch]]:
    """Return two steps with random values from the spaces; the first step achieves its goal.

    The list has the same steps for each combination of dtypes of infos, since these dtypes are not known yet.

    Args:
        relabeler: Relabeler that will get such steps.
        layout: Spaces and info keys of the steps.
    """
    rng, keys = np.random.default_rng(0), layout.info_keys
    observations = _dummy(layout.observations, layout.observation_space, 3, rng)
    achieved, desired = observations["achieved_goal"], observations["desired_goal"]
    for goal, other in zip(leaf_arrays(achieved), leaf_arrays(desired), strict=True):
        other[:2] = goal[1]
    actions = _dummy(layout.actions, layout.action_space, 2, rng)
    numbers, flags, steps = rng.normal(0, 3, 2), np.zeros(1, np.bool_), np.arange(2)
    samples = []
    for dtypes in itertools.product(INFO_DTYPES, repeat=len(keys)):
        infos: dict[str, np.ndarray] = dict(zip(keys, map(numbers.astype, dtypes), strict=True))
        episode = Episodes(observations, actions, np.zeros(2), np.array([2]), flags, ~flags, infos)
        batch = recorded_batch(episode, steps, "desired_goal", relabeler.gamma)
        samples.append((relabeler.recorded(episode, steps), batch))
    return samples


def _dummy(spec: SpaceSpec, space: spaces.Space[Any], rows: int, rng: np.random.Generator) -> Tree:
    return spec.build([_dummy_leaf(leaf, rows, rng) for leaf in leaf_spaces(space).values()])


def _dummy_leaf(space: spaces.Space[Any], rows: int, rng: np.random.Generator) -> np.ndarray:
    if isinstance(space, spaces.Box):  # its own samples may be too large to compute with
        values = rng.normal(0, 3, (rows, *space.shape)).clip(space.low, space.high)
        return values.astype(space.dtype)
    private = copy.deepcopy(space)
    private.seed(0)
    return np.stack([np.asarray(private.sample(), private.dtype) for _ in range(rows)])
