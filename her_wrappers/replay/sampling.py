"""Sampler: draws the steps of the next batches, and, for each relabeled step, the origin of its new goal.

NumPy needs little more time for thousands of rows than for hundreds. So several batches are drawn at once.
Their number doubles with each drawing, up to `MAX_BATCHES`. It starts at 1 again when the stored episodes, a
priority or the batch size change. The batches have the same distribution as batches drawn one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from her_wrappers.data import Json
from her_wrappers.replay.goal_selection import MixtureComponent, uniform_below
from her_wrappers.replay.options import BufferOptions
from her_wrappers.replay.priorities import PrioritySampler
from her_wrappers.replay.rows import FLAG_BITS, RowStorage, Stored
from her_wrappers.support.arguments import require_count

MAX_ROWS = 4096  # maximum number of rows that are drawn at once, unless a single batch has more
MAX_BATCHES = 16  # maximum number of batches that are drawn at once; more would save little


class Steps(NamedTuple):
    """Facts about n stored steps, each an (n,) integer array."""

    number: np.ndarray  # step number
    row: np.ndarray  # row of the state before the step; a row beyond the ring continues at row 0
    t: np.ndarray  # index of the step in its episode
    length: np.ndarray  # number of steps of the episode
    span: np.ndarray  # slot of the goal span in `Stored.goal_spans`
    span_end: np.ndarray  # number of the first step after the goal span
    flags: np.ndarray  # bits of FLAGS of the episode


class Draw(NamedTuple):
    """B sampled steps and the origins of their new goals; the relabeled steps come first."""

    index: Any  # (B,) step numbers; `Any`, since tuples have a method of this name
    rows: np.ndarray  # (2, B) rows of the states before and after the steps
    goal_rows: np.ndarray  # (B,) rows of the states whose achieved goals are the new goals
    goal_spans: np.ndarray  # (B,) slots of goal spans, for the steps that get a desired goal
    relabeled: np.ndarray  # (B,) bool, whether the row gets a new goal
    flags: np.ndarray  # (3, B) bool: termination, truncation, goal-independent termination
    end_flags: np.ndarray  # (3, B) bool, the same for the last step of the episode
    steps_to_end: np.ndarray  # (B,) number of steps from this one to the end of the episode
    steps_left: Any  # (B,) largest number of steps of the n-step window; None without windows
    discounts: np.ndarray  # (B,) float32, gamma
    weights: np.ndarray  # (B,) ones, or the scaled priorities
    counts: Any  # two integers: numbers of rows with an achieved goal and with any new goal
    episode: np.ndarray  # (B,) see `Provenance`, also for the next two
    goal_index: np.ndarray  # (B,)
    component: np.ndarray  # (B,)


class Sampler:
    """Draws batches from a storage, uniformly or by priorities."""

    def __init__(
        self, storage: RowStorage, priorities: PrioritySampler | None, options: BufferOptions
    ) -> None:
        self._storage = storage
        self._mixture = options.mixture
        self._priorities = priorities
        self._n_steps, self._gamma = options.n_steps, options.gamma
        self.rng = np.random.default_rng(options.seed)
        self.invalidate()

    def invalidate(self) -> None:
        """Drop the batches drawn in advance; call this after the sampling probability of a step changed."""
        self._stored: Stored | None = None  # content of the storage when the batches were drawn
        self._draws: list[Draw] = []
        self._batch_size = self._used = 0
        self._generator: Json = None  # state of the generator from which the batches are drawn again

    def next(self, batch_size: int) -> Draw:
        """Return the steps of the next batch."""
        is_current = self._stored is self._storage.stored and batch_size == self._batch_size
        if not is_current or self._used == len(self._draws):
            if type(batch_size) is not int or batch_size < 1:  # a NumPy integer, or an error
                batch_size = require_count("batch_size", batch_size, at_least=1)
            num_batches = 2 * len(self._draws) if is_current else 1
            self._prefetch(max(1, min(num_batches, MAX_BATCHES, MAX_ROWS // batch_size)), batch_size)
        self._used += 1
        return self._draws[self._used - 1]

    def _prefetch(self, num_batches: int, batch_size: int) -> None:
        self._stored = None  # if this is interrupted, the next call draws new batches
        self._generator = self.rng.bit_generator.state
        self._draws = self.draw(num_batches, batch_size, self.rng)
        self._batch_size, self._used, self._stored = batch_size, 0, self._storage.stored

    def draw(self, num_batches: int, batch_size: int, rng: np.random.Generator) -> list[Draw]:
        """Draw batches, or raise ValueError if no episode is stored."""
        stored, priorities = self._storage.stored, self._priorities
        count, shape = num_batches * batch_size, (num_batches, batch_size)
        if stored.first == stored.end:
            raise ValueError(
                "cannot sample: the buffer has no complete episode; add steps until can_sample is True "
                "(an episode is complete when it is terminated or truncated)"
            )
        if priorities is None:
            ahead = uniform_below(stored.end - stored.first, count, rng)
        else:
            priorities.follow(stored.first, stored.end)
            ahead = priorities.sample(count, rng)
        steps = self._look_up(stored, ahead)
        component, counts = self._mixture.sample_components(num_batches, batch_size, rng)
        goal_rows, goal_spans, goal_index = self._select_goals(stored, steps, component.reshape(-1), rng)
        rows = np.empty((num_batches, 2, batch_size), np.int64)
        rows[:, 0] = steps.row.reshape(shape)
        np.add(rows[:, 0], 1, out=rows[:, 1])
        relabeled = component < len(self._mixture.components)
        steps_to_end = steps.length - steps.t
        end_flags, left = (steps.flags.astype(np.int8) & FLAG_BITS[:, None]) != 0, [None] * num_batches
        if self._n_steps > 1:
            # The window of an original step ends before the goal changes.
            left = np.where(relabeled.reshape(-1), steps_to_end, steps.span_end - steps.number)
            left = left.clip(max=self._n_steps).reshape(shape)
        constants = np.empty((2, *shape), np.float32)
        constants[0], constants[1] = self._gamma, 1
        batches = Draw(  # of all batches: each field has one more axis, the first
            index=steps.number.reshape(shape),
            rows=rows,
            goal_rows=goal_rows.reshape(shape),
            goal_spans=goal_spans.reshape(shape),
            relabeled=relabeled,
            flags=(end_flags & (steps_to_end == 1)).reshape(3, *shape).swapaxes(0, 1),
            end_flags=end_flags.reshape(3, *shape).swapaxes(0, 1),
            steps_to_end=steps_to_end.reshape(shape),
            steps_left=left,
            discounts=constants[0],
            weights=constants[1] if priorities is None else priorities.scaled(steps.number).reshape(shape),
            counts=counts,
            episode=(steps.number - steps.t).reshape(shape),
            goal_index=goal_index.reshape(shape),
            component=component,
        )
        return list(map(Draw, *batches))

    def _look_up(self, stored: Stored, ahead: np.ndarray) -> Steps:
        """Look up n steps; ``ahead``, (n,), are their offsets from the oldest stored step."""
        # The index is below twice the size of the ring, and mode "wrap" subtracts the size.
        slots = ahead + stored.first % self._storage.buffer_size
        span = stored.steps.take(slots, 0, None, "wrap").astype(np.intp)
        first, row, length, flags, span_end = stored.goal_spans.take(span, 0, None, "wrap").T
        number = ahead + stored.first
        t = number - first
        return Steps(number, row + t, t, length, span, span_end, flags)

    def _select_goals(
        self, stored: Stored, steps: Steps, component: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Select goals for n steps; return (goal_rows, goal_spans, goal_index), see `Draw` and `Batch`."""
        components = self._mixture.components
        if len(components) == 1:  # selecting goals for all rows is faster than finding the relabeled rows
            goal_rows, spans, goal_index = self._select(stored, components[0], steps, rng)
            if components[0].takes_desired:
                spans = np.where(component == 0, spans, steps.span)
            return goal_rows, spans, goal_index
        goal_rows, goal_spans, goal_index = steps.row.copy(), steps.span.copy(), np.zeros_like(steps.number)
        for number, each in enumerate(components):
            chosen = np.flatnonzero(component == number)
            if len(chosen):
                found = self._select(stored, each, Steps(*[column[chosen] for column in steps]), rng)
                goal_rows[chosen], goal_spans[chosen], goal_index[chosen] = found
        return goal_rows, goal_spans, goal_index

    def _select(
        self, stored: Stored, component: MixtureComponent, steps: Steps, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Do the same as `_select_goals` for steps that all have the same strategy, ``component``."""
        if component.select is not None:
            s = component.select(steps.t, steps.length, rng)
            ahead = s - steps.t
            return steps.row + ahead, steps.span, steps.number + ahead - 1
        others = self._look_up(stored, uniform_below(stored.num_steps, len(steps.number), rng))
        return others.row + 1, others.span if component.takes_desired else steps.span, others.number

    def state_dict(self) -> dict[str, Json]:
        """Return a state with which `load_state_dict` continues the same sequence of batches."""
        if self._stored is not self._storage.stored:
            return {"generator": self.rng.bit_generator.state, "batch_size": 0, "batches": 0, "used": 0}
        numbers = {"batch_size": self._batch_size, "batches": len(self._draws), "used": self._used}
        return {"generator": self._generator, **numbers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at a saved state of the sequence of batches; episodes and priorities must be unchanged."""
        self.invalidate()
        self.rng.bit_generator.state = state["generator"]
        if state["batches"]:
            self._prefetch(state["batches"], state["batch_size"])
            self._used = state["used"]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the drawn batches; `__setstate__` draws them again."""
        return self.__dict__ | {"_stored": None, "_draws": None, "state": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state. Batches that were drawn in advance are not in the state, so draw them again."""
        saved = state.pop("state")
        self.__dict__.update(state)
        self.load_state_dict(saved)
