"""BatchSampler: which steps make up the next batches, and which states or steps supply their goals.

NumPy needs little more time for thousands of rows than for hundreds. So the indices of several batches are
sampled at once. Their number doubles each time, up to `MAX_BATCHES`, and is 1 again after the stored
episodes, a priority or the batch size changed. The batches have the same distribution as batches that are
sampled one by one.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.arguments import require_count
from her_wrappers.replay.batch import Batch
from her_wrappers.replay.episode_index import SampledIndices

if TYPE_CHECKING:
    from collections.abc import Callable

    from her_wrappers.files import Json
    from her_wrappers.replay.byte_rows import Records
    from her_wrappers.replay.episode_index import StepRefs
    from her_wrappers.replay.goal_sampler import GoalMixture, GoalSampler
    from her_wrappers.replay.prioritized import Priorities
    from her_wrappers.replay.storage import EpisodeStorage, StoredMemory

MAX_ROWS = 4096
"""Maximum number of rows that are sampled at once, unless a single batch has more."""

MAX_BATCHES = 16
"""Maximum number of batches that are sampled at once; more would save little."""


class PrefetchState(NamedTuple):
    """State from which the prefetched batches can be sampled again.

    Attributes:
        generator: State of the generator before the batches were sampled, as JSON; None for a single batch.
        batch_size: Number of rows of a batch.
        batches: Number of batches that were sampled at once.
        used: Number of these batches that were returned already.
    """

    generator: Json
    batch_size: int
    batches: int
    used: int


class Prefetched(NamedTuple):
    """Prefetched batches, replaced in one assignment, so that an interruption leaves them consistent.

    Attributes:
        batches: Indices of each remaining batch; the next batch is last.
        state: State from which the batches can be sampled again.
        memory: Memory of the storage at the time of sampling, or None.
    """

    batches: list[SampledIndices]
    state: PrefetchState
    memory: StoredMemory | None


class BatchSampler:
    """Samples the indices of batches.

    Args:
        storage: The stored episodes.
        mixture: Components of a batch.
        goals: Samples the states and steps that supply goals.
        priorities: Priorities of the steps, or None for uniform sampling.
        seed: Seed of the generator.
        windowed: Whether batches consist of windows of n steps.

    Attributes:
        rng: Source of all randomness.

    Raises:
        ValueError: ``seed`` is not a non-negative integer or None.
    """

    def __init__(
        self,
        storage: EpisodeStorage,
        mixture: GoalMixture,
        goals: GoalSampler,
        priorities: Priorities | None,
        seed: int | None,
        *,
        windowed: bool,
    ) -> None:
        self._storage = storage
        self._mixture = mixture
        self._goals = goals
        self._priorities = priorities
        self._windowed = windowed
        self.rng = _make_generator(seed)
        self.invalidate()

    def invalidate(self) -> None:
        """Drop the prefetched batches; call this after the probability of a step changed."""
        self._prefetched = Prefetched([], PrefetchState(None, 0, 0, 0), None)

    def next(self, batch_size: int) -> SampledIndices:
        """Return the indices of the next batch.

        Args:
            batch_size: Number of rows, B.

        Raises:
            ValueError: ``batch_size`` is not an integer of at least 1, or no episode is stored.
        """
        prefetched = self._prefetched
        if prefetched.memory is not self._storage.memory or batch_size != prefetched.state.batch_size:
            self.invalidate()
        if not self._prefetched.batches:
            if type(batch_size) is not int or batch_size < 1:
                batch_size = require_count("batch_size", batch_size, at_least=1)
            before = self._prefetched.state.batches
            batches = max(1, min(2 * before, MAX_BATCHES, MAX_ROWS // batch_size))
            self._prefetch_batches(batches, batch_size)
        return self._prefetched.batches.pop()

    def prefetch_state(self) -> PrefetchState | None:
        """Return the state of the prefetched batches; None if there are none or they are out of date."""
        left, state, memory = self._prefetched
        if not state.batches or memory is not self._storage.memory:
            return None
        # A single batch, which has no state of the generator, counts as used: it is returned at once.
        return state._replace(used=state.batches - (len(left) if state.generator is not None else 0))

    def restore_prefetch(self, state: PrefetchState) -> None:
        """Sample again the prefetched batches that were not returned yet.

        Episodes and priorities must be those of the time when `prefetch_state` was called. The state of `rng`
        may change; the caller sets it afterwards.

        Args:
            state: Result of `prefetch_state`.

        Raises:
            TypeError: The state of the generator has a wrong type.
            ValueError: A number in ``state`` is out of its range, or the generator is of another kind.
        """
        batch_size = require_count("batch_size", state.batch_size, at_least=1)
        batches = require_count("batches", state.batches, at_least=1)
        used = require_count("used", state.used, at_least=0)
        limit = max(1, min(MAX_BATCHES, MAX_ROWS // batch_size))
        if not used <= batches <= limit:
            raise ValueError(f"expected used <= batches <= {limit}, got used={used} and batches={batches}")
        if used < batches:
            self.rng.bit_generator.state = state.generator
            self._prefetch_batches(batches, batch_size)
        left = self._prefetched.batches[: batches - used]
        self._prefetched = Prefetched(left, state._replace(used=0), self._storage.memory)

    def fork(self) -> BatchSampler:
        """Return a sampler with a copy of the generator; sampling from it does not change this one."""
        fork = object.__new__(BatchSampler)
        fork.__dict__.update(self.__dict__)
        fork.rng = copy.deepcopy(self.rng)
        fork.invalidate()
        return fork

    def _prefetch_batches(self, batches: int, batch_size: int) -> None:
        """Sample the indices of several batches at once."""
        memory = self._storage.memory
        # A single batch is used at once, and need not be sampled again.
        generator = self.rng.bit_generator.state if batches > 1 else None
        if not memory.index.num_steps:
            raise ValueError(
                "cannot sample: the buffer has no complete episode; add steps until can_sample is True "
                "(an episode is complete when it is terminated or truncated)"
            )
        sampled = self._sample(memory, batches, batch_size)
        fields = [
            [None] * batches if each is None else each for each in self._storage.indices_to_device(sampled)
        ]
        split = list(map(SampledIndices._make, zip(*fields, strict=True)))
        self._prefetched = Prefetched(split[::-1], PrefetchState(generator, batch_size, batches, 0), memory)

    def _sample(self, memory: StoredMemory, batches: int, batch_size: int) -> SampledIndices:
        rows, shape = batches * batch_size, (batches, batch_size)
        source = memory.index if self._priorities is None else self._priorities
        refs = memory.index.locate(source.sample(rows, self.rng))
        component = self._mixture.sample_components(batches, batch_size, self.rng)
        goals = self._goals.sample(self._storage, refs, component.ravel(), self.rng)
        states = np.empty((batches, 2, batch_size), np.int64)
        states[:, 0] = refs.states.reshape(shape)
        np.add(states[:, 0], 1, out=states[:, 1])
        serials = refs.serials.reshape(shape)
        is_relabeled = component < len(self._mixture.components)
        num_relabeled = num_achieved = is_relabeled.sum(axis=1).tolist()
        if self._mixture.num_achieved < len(self._mixture.components):
            num_achieved = (component < self._mixture.num_achieved).sum(axis=1).tolist()
        return SampledIndices(
            host_serials=serials,
            serials=serials,
            states=states,
            segment_slots=goals.segment_slots.reshape(shape),
            episode=refs.segments["first_step"].reshape(shape),
            goal_states=goals.states.reshape(shape),
            goal_index=goals.serials.reshape(shape),
            component=component,
            is_relabeled=is_relabeled,
            num_relabeled=num_relabeled,
            num_achieved=num_achieved,
            steps_left=_steps_left(refs, is_relabeled) if self._windowed else None,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the prefetched batches, which a copy samples again."""
        state = self.__dict__ | {"_prefetched": self.prefetch_state()}
        return state | {"_generator": self.rng.bit_generator.state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and sample the prefetched batches again."""
        prefetch, generator = state["_prefetched"], state.pop("_generator")
        self.__dict__.update(state)
        self.invalidate()
        if prefetch is not None:
            self.restore_prefetch(prefetch)
            self.rng.bit_generator.state = generator


def _make_generator(seed: int | None) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ValueError(f"seed must be a whole number >= 0 or None, got {seed!r}") from error


def _steps_left(refs: StepRefs, is_relabeled: np.ndarray) -> np.ndarray:
    """Return the number of stored steps, from each row's step on, that may get the goal of the row."""
    segments = refs.segments.reshape(is_relabeled.shape)
    episode_end = segments["first_step"] + segments["length"]
    left: np.ndarray = np.where(is_relabeled, episode_end, segments["end"])
    left -= refs.serials.reshape(is_relabeled.shape)
    return left


def n_step_batch(  # noqa: PLR0917 - the parts that `HindsightReplayBuffer.sample` has
    storage: EpisodeStorage,
    sampled: SampledIndices,
    desired: Records,
    weights: Any,
    relabel: Callable[..., Batch],
    n_steps: int,
    gamma: float,
) -> Batch:
    """Return a batch with the n-step returns of the windows that begin at sampled steps.

    Args:
        storage: The stored episodes.
        sampled: Indices of B sampled steps.
        desired: (2, B) desired goals before and after the steps.
        weights: (B,) weights.
        relabel: Function that returns single steps as a batch, with new rewards and terminations in the
            relabeled rows, which come first.
        n_steps: Maximum number of steps of a window.
        gamma: Discount factor.

    Raises:
        ValueError: A function of the user returns a wrong result, or a sum of rewards is not finite as
            float32.
    """
    first, steps_left = sampled.states[0], np.asarray(sampled.steps_left)
    windows = storage.make_windows(steps_left, n_steps)
    serials, begins = windows.steps(sampled.serials), windows.steps(first)
    steps = storage.gather(serials, storage.state_pairs(begins, begins + 1), windows.repeat_rows(desired))
    columns = windows.repeat_rows(weights), windows.repeat_rows(sampled.is_relabeled)
    singles = relabel(steps, *columns, serials, sampled.num_relabeled * windows.width)
    returns = windows.returns(singles, gamma)
    ends = storage.gather(sampled.serials, storage.state_pairs(first, first + returns.lengths), desired)
    observations, actions, _, next_observations, _, _ = storage.memory.layout.transitions(ends)
    return Batch(
        observations,
        actions,
        returns.rewards,
        next_observations,
        returns.terminations,
        returns.truncations,
        returns.discounts,
        weights,
        sampled.is_relabeled,
        sampled.serials,
    )
