"""Sampler: draws the steps of the next batches, and, for each relabeled step, the origin of its new goal.

NumPy needs little more time for thousands of rows than for hundreds. So several batches are drawn at once.
Their number doubles with each drawing, up to `MAX_BATCHES`. It starts at 1 again when the stored episodes, a
priority or the batch size change. The batches have the same distribution as batches drawn one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from her_wrappers.data import Json
from her_wrappers.replay.batch import Provenance
from her_wrappers.replay.goal_selection import GoalMixture, MixtureComponent, uniform_below
from her_wrappers.replay.priorities import PrioritySampler
from her_wrappers.replay.rows import FLAG_BITS, RowStorage, Stored
from her_wrappers.support.arguments import require_count

MAX_ROWS = 4096  # maximum number of rows that are drawn at once, unless a single batch has more
MAX_BATCHES = 16  # maximum number of batches that are drawn at once; more would save little


class Draws(NamedTuple):
    """K batches of B sampled steps and their goals; in each batch, the relabeled steps come first."""

    index: Any  # (K, B) step numbers
    rows: Any  # (K, 2, B) rows of the states before and after the steps
    goals: Any  # (K, B) rows of states or goal runs, see `RowStorage.take_goals`
    relabeled: Any  # (K, B) bool, whether the row gets a new goal
    flags: Any  # (3, K, B) bool, bits of FLAGS: of the step, or with n-step returns of its episode
    discounts: Any  # (K, B) float32, gamma
    weights: Any  # (K, B) ones; or the scaled priorities, as an array
    counts: list[tuple[int, int]]  # K pairs, numbers of rows with an achieved goal and with any new goal
    windows: np.ndarray | None  # (2, K, B) largest length of each window, steps to the end of its episode
    provenance: Provenance  # (K, B) arrays


class Sampler:
    """Draws batches from a storage, uniformly or by priorities."""

    def __init__(
        self,
        storage: RowStorage,
        priorities: PrioritySampler | None,
        mixture: GoalMixture,
        options: Mapping[str, Any],
        seed: int | None,
    ) -> None:
        self._storage = storage
        self._mixture = mixture
        self._priorities = priorities
        self._n_steps: int = options["n_steps"]
        self._gamma: float = options["gamma"]
        self._resample: bool = options["resample_achieved_goals"]
        try:
            self.rng = np.random.default_rng(seed)
        except (TypeError, ValueError) as error:
            raise ValueError(f"seed must be a non-negative integer or None, got {seed!r}") from error
        self.invalidate()

    def invalidate(self) -> None:
        """Drop the batches drawn in advance; call this after the sampling probability of a step changed."""
        self._stored: Stored | None = None  # content of the storage when the batches were drawn
        self._draws: Draws | None = None
        self._batch_size = self._num_batches = self._used = 0
        self._generator: Json = None  # state of the generator from which the batches are drawn again

    def next(self, batch_size: int) -> tuple[Draws, int]:
        """Return the `Draws` that contain the next batch, and the index of this batch in them."""
        is_current = self._stored is self._storage.stored and batch_size == self._batch_size
        draws = self._draws if is_current else None
        if draws is None or self._used == self._num_batches:
            batch_size = require_count("batch_size", batch_size, at_least=1)
            num_batches = 2 * self._num_batches if is_current else 1
            draws = self._prefetch(max(1, min(num_batches, MAX_BATCHES, MAX_ROWS // batch_size)), batch_size)
        self._used += 1
        return draws, self._used - 1

    def _prefetch(self, num_batches: int, batch_size: int) -> Draws:
        self.invalidate()  # if this is interrupted, the next call draws new batches
        self._generator = self.rng.bit_generator.state
        draws = self.draw(num_batches, batch_size, self.rng)
        self._stored, self._batch_size = self._storage.stored, batch_size
        self._num_batches, self._used, self._draws = num_batches, 0, draws
        return draws

    def draw(self, num_batches: int, batch_size: int, rng: np.random.Generator) -> Draws:
        """Draw batches, or raise ValueError if no episode is stored."""
        storage, mixture, priorities = self._storage, self._mixture, self._priorities
        stored, count, shape = storage.stored, num_batches * batch_size, (num_batches, batch_size)
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
        index, row, t, length, _, run_end, bits = steps
        component, counts = mixture.sample_components(num_batches, batch_size, rng)
        of_step = component.reshape(-1)
        goals, goal_index = self._select_goals(stored, steps, of_step, rng)
        if self._resample:
            # Steps that get an achieved goal come first, then those that get a desired goal.
            order = of_step.argsort(kind="stable")
            ends = of_step[order].searchsorted((mixture.num_achieved, len(mixture.components)))
            again = order[: ends[1]]
            again = again[storage.were_achieved(row[again], goals[again], ends[0])]
            some = tuple(column[again] for column in steps)
            goals[again], goal_index[again] = self._select_goals(stored, some, of_step[again], rng)
        rows = np.empty((num_batches, 2, batch_size), np.int64)
        rows[:, 0] = row.reshape(shape)
        np.add(rows[:, 0], 1, out=rows[:, 1])
        relabeled = component < len(mixture.components)
        flags, windows = (bits.astype(np.int8) & FLAG_BITS[:, None]) != 0, None
        if self._n_steps == 1:
            flags &= length - t == 1
        else:
            # The window of an original step ends before the goal changes.
            steps_left = np.where(relabeled.reshape(-1), length - t, run_end - index)
            windows = np.stack([steps_left.clip(max=self._n_steps), length - t]).reshape(2, *shape)
        constants = storage.arrays.zeros((2, *shape), np.dtype(np.float32))
        constants[0], constants[1] = self._gamma, 1
        draws = Draws(
            index=index.reshape(shape),
            rows=rows,
            goals=goals.reshape(shape),
            relabeled=relabeled,
            flags=flags.reshape(3, *shape),
            discounts=constants[0],
            weights=constants[1] if priorities is None else priorities.scaled(index).reshape(shape),
            counts=counts,
            windows=windows,
            provenance=Provenance(
                (index - t).reshape(shape), goal_index.reshape(shape), component, mixture.names
            ),
        )
        if storage.arrays.is_torch:
            names = ("index", "rows", "goals", "relabeled", "flags")
            on_device = {name: storage.arrays.from_numpy(getattr(draws, name)) for name in names}
            draws = draws._replace(**on_device)
        return draws

    def _look_up(self, stored: Stored, ahead: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return seven (n,) arrays about n steps; ``ahead`` are offsets from the oldest stored step.

        In this order: number of the step; row of the state in which the step begins; index t of the step in
        its episode; length of this episode; index, in `Stored.runs`, of the step's goal run; number of the
        first step after this goal run; and `FLAGS` of the episode. A goal run is a sequence of steps with the
        same desired goal, or a single step that changes the desired goal.
        """
        index = ahead + stored.first
        run = stored.steps.take(ahead + stored.first % self._storage.buffer_size, 0, None, "wrap")
        first, row, length, flags, _, run_end = stored.runs.take(run, 0, None, "wrap").T
        t = index - first
        return index, row + t, t, length, run, run_end, flags

    def _select_goals(
        self, stored: Stored, steps: tuple[np.ndarray, ...], component: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Select n goals for n steps; return (n,) values for `Draws.goals`, and the step number of each goal.

        ``steps`` is the result of `_look_up`. ``component`` is, for each step, the index of its goal
        selection strategy in ``mixture.components``, or the length of this list if it is not relabeled.
        """
        components = self._mixture.components
        if len(components) == 1:  # selecting goals for all rows is faster than finding the relabeled rows
            goals, goal_index = self._select(stored, components[0], steps, rng)
            return np.where(component == 0, goals, steps[4]), goal_index
        goals, goal_index = steps[4].astype(np.int64), np.zeros_like(steps[0])
        for number, each in enumerate(components):
            chosen = np.flatnonzero(component == number)
            if len(chosen):
                some = tuple(column[chosen] for column in steps)
                goals[chosen], goal_index[chosen] = self._select(stored, each, some, rng)
        return goals, goal_index

    def _select(
        self,
        stored: Stored,
        component: MixtureComponent,
        steps: tuple[np.ndarray, ...],
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Do the same as `_select_goals`, but for steps that all have the same strategy, ``component``."""
        index, row, t, length, *_ = steps
        if component.select is not None:
            s = component.select(t, length, rng)
            return row - t + s, index - t + s - 1
        ahead = uniform_below(stored.num_steps, len(index), rng)
        other_index, other_row, _, _, other_run, *_ = self._look_up(stored, ahead)
        return other_run if component.takes_desired else other_row + 1, other_index

    def state_dict(self) -> dict[str, Json]:
        """Return a state with which `load_state_dict` continues the same sequence of batches."""
        if self._stored is not self._storage.stored:
            return {"generator": self.rng.bit_generator.state, "batch_size": 0, "batches": 0, "used": 0}
        numbers = {"batch_size": self._batch_size, "batches": self._num_batches, "used": self._used}
        return {"generator": self._generator, **numbers}

    def load_state_dict(self, state: dict[str, Json]) -> None:
        """Continue at a saved state of the sequence of batches; episodes and priorities must be unchanged."""
        self.invalidate()
        numbers = (require_count(name, state[name], at_least=0) for name in ("batch_size", "batches", "used"))
        batch_size, num_batches, used = numbers
        self.rng.bit_generator.state = state["generator"]
        if num_batches:
            most = max(1, min(MAX_BATCHES, MAX_ROWS // max(1, batch_size)))
            if not (batch_size > 0 and used <= num_batches <= most):
                raise ValueError(
                    f"the saved state of the sampler is not valid: {batch_size=}, batches={num_batches}, "
                    f"{used=}; expected batch_size >= 1, batches <= {most} and used <= batches"
                )
            self._prefetch(num_batches, batch_size)
            self._used = used

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the drawn batches; `__setstate__` draws them again."""
        return self.__dict__ | {"_stored": None, "_draws": None, "state": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and draw the batches again that were drawn in advance but not saved."""
        saved = state.pop("state")
        self.__dict__.update(state)
        self.load_state_dict(saved)
