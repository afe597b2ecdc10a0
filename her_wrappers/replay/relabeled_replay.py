"""RelabeledReplay: draws steps and the origins of their new goals, copies their values, and relabels them.

NumPy needs little more time for thousands of rows than for hundreds. So several batches are drawn at once.
Their number doubles with each drawing, up to `MAX_BATCHES`. It starts at 1 again when the stored episodes, a
priority or the batch size change.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from her_wrappers.data import Json
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.batch import Batch, Provenance, Statistics, statistics_of
from her_wrappers.replay.goal_selection import MixtureComponent, uniform_below
from her_wrappers.replay.options import BufferOptions, functions_missing
from her_wrappers.replay.priorities import INITIAL_PRIORITY, PrioritySampler
from her_wrappers.replay.relabeling import Relabeler, SeenRewards, resolve_termination
from her_wrappers.replay.relabeling_warnings import EpisodeChecks
from her_wrappers.replay.rows import HAS_FLAG, RowStorage, Stored
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


class RelabeledReplay:
    """Stores the complete episodes of a buffer and samples batches; has no lock, open episodes or torch."""

    demonstrations: RelabeledReplay | None = None
    share: float | None = None  # of demonstrations in each batch
    is_fixed = False  # whether these are the demonstrations of another replay, which never change

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        options: BufferOptions,
        first: int = 0,  # number of the first step that will be added
    ) -> None:
        size, keys = options.buffer_size, options.info_keys
        self.storage = RowStorage(observation_space, action_space, size, keys, first)
        self.relabeler: Relabeler | None = None  # None if nothing is relabeled, or the functions are missing
        self.checks: EpisodeChecks | None = None
        if options.can_relabel:
            goal_space = observation_space["achieved_goal"]
            rule = resolve_termination(options.termination, options.compute_terminated, goal_space)
            if options.termination is None and rule.mode == "recompute":
                options = replace(options, termination="recompute")  # also after a load without functions
            functions = options.compute_reward, options.reward_fn
            self.relabeler = Relabeler(*functions, rule, options.info_keys, options.gamma)
            self.checks = EpisodeChecks(self.relabeler)
            if rule.mode == "success" and options.mixture.has_no_original:
                self.checks.warned.add("missing terminations")  # no original row contradicts the rule
        self.options = options
        priority = options.prioritized
        self.priorities = None if priority is None else PrioritySampler(size, priority)
        self.rng = np.random.default_rng(options.seed)
        self._drop_draws()

    def __len__(self) -> int:
        """Return the number of stored steps."""
        return self.storage.stored.num_steps

    @property
    def nbytes(self) -> int:
        """Allocated memory in bytes."""
        return self.storage.nbytes + (0 if self.priorities is None else self.priorities.nbytes)

    def add(self, episodes: Sequence[Episode]) -> None:
        """Validate and store episodes; check some of them, and warn if relabeling would be wrong."""
        self._require_changeable()
        validated = self._validated(episodes)
        goal_independent = np.zeros(len(validated.lengths), np.bool_)
        if self.relabeler is None or self.checks is None:
            self.storage.add(validated, goal_independent)
            return
        self.checks.inspect(validated)
        if self.relabeler.rule.mode == "success" or validated.terminated.any():
            # The relabeler must know the rewards of all stored steps, also after an interruption.
            goal_independent, self.relabeler.seen = self.relabeler.find_goal_independent(validated)
        self.storage.add(validated, goal_independent)
        with contextlib.suppress(MemoryError):  # the episodes are stored already
            self.checks.inspect_stored(self.storage, len(validated.lengths))

    def _validated(self, episodes: Sequence[Episode]) -> Episodes:
        """Return the episodes in the dtypes of the spaces; raise ValueError for the first invalid episode."""
        try:
            return self.storage.validate(Episodes.of(episodes))
        except ValueError:
            if len(episodes) == 1:
                raise
        # Either an episode is not valid, or the episodes have different dtypes and can be cast one by one.
        validated = []
        for number, episode in enumerate(episodes):
            try:
                validated.append(self._validated([episode])[0])
            except ValueError as error:
                raise type(error)(f"episodes[{number}]: {error}") from error
        return Episodes.of(validated)

    # --- drawing of batches -----------------------------------------------------------------------

    def _drop_draws(self) -> None:
        """Drop the batches drawn in advance; call this after the sampling probability of a step changed."""
        self._stored: Stored | None = None  # content of the storage when the batches were drawn
        self._draws: list[Draw] = []
        self._batch_size = self._used = 0
        self._generator: Json = None  # state of the generator from which the batches are drawn again

    def sample(self, batch_size: int, beta: float | None) -> Batch:
        """Sample a batch; see `HindsightReplayBuffer.sample`."""
        is_current = self._stored is self.storage.stored and batch_size == self._batch_size
        if not is_current or self._used == len(self._draws):
            if type(batch_size) is not int or batch_size < 1:  # a NumPy integer, or an error
                batch_size = require_count("batch_size", batch_size, at_least=1)
            num_batches = 2 * len(self._draws) if is_current else 1
            self._prefetch(max(1, min(num_batches, MAX_BATCHES, MAX_ROWS // batch_size)), batch_size)
        self._used += 1
        return self._make_batch(self._draws[self._used - 1], beta)

    def _prefetch(self, num_batches: int, batch_size: int) -> None:
        self._stored = None  # if this is interrupted, the next call draws new batches
        self._generator = self.rng.bit_generator.state
        self._draws = self._draw(num_batches, batch_size, self.rng)
        self._batch_size, self._used, self._stored = batch_size, 0, self.storage.stored

    def _draw(self, num_batches: int, batch_size: int, rng: np.random.Generator) -> list[Draw]:
        """Draw batches, or raise ValueError if no episode is stored."""
        stored, priorities, mixture = self.storage.stored, self.priorities, self.options.mixture
        count, shape = num_batches * batch_size, (num_batches, batch_size)
        if stored.first == stored.end:
            raise ValueError(
                "cannot sample: the buffer has no complete episode; add steps until can_sample is True "
                "(an episode is complete when it is terminated or truncated)"
            )
        if priorities is None:
            ahead = uniform_below(stored.end - stored.first, count, rng)
        else:
            priorities.set_stored(stored.first, stored.end)
            ahead = priorities.sample(count, rng)
        steps = self._look_up(ahead)
        component, counts = mixture.sample_components(num_batches, batch_size, rng)
        goal_rows, goal_spans, goal_index = self._select_goals(steps, component.reshape(-1), rng)
        rows = np.empty((num_batches, 2, batch_size), np.int64)
        rows[:, 0] = steps.row.reshape(shape)
        np.add(rows[:, 0], 1, out=rows[:, 1])
        relabeled = component < len(mixture.components)
        steps_to_end = steps.length - steps.t
        end_flags, left = HAS_FLAG.take(steps.flags, 1, None, "wrap"), [None] * num_batches
        if self.options.n_steps > 1:
            # The window of an original step ends before the goal changes.
            left = np.where(relabeled.reshape(-1), steps_to_end, steps.span_end - steps.number)
            left = left.clip(max=self.options.n_steps).reshape(shape)
        constants = np.empty((2, *shape), np.float32)
        constants[0], constants[1] = self.options.gamma, 1
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

    def _look_up(self, ahead: np.ndarray) -> Steps:
        """Look up n steps; ``ahead``, (n,), are their offsets from the oldest stored step."""
        stored = self.storage.stored
        # The index is below twice the size of the ring, and mode "wrap" subtracts the size.
        slots = ahead + stored.first % self.storage.buffer_size
        span = stored.steps.take(slots, 0, None, "wrap").astype(np.intp)
        first, row, length, flags, span_end = stored.goal_spans.take(span, 0, None, "wrap").T
        number = ahead + stored.first
        t = number - first
        return Steps(number, row + t, t, length, span, span_end, flags)

    def _select_goals(
        self, steps: Steps, component: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Select goals for n steps; return (goal_rows, goal_spans, goal_index), see `Draw` and `Batch`."""
        components = self.options.mixture.components
        if len(components) == 1:  # selecting goals for all rows is faster than finding the relabeled rows
            goal_rows, spans, goal_index = self._select(components[0], steps, rng)
            if components[0].takes_desired:
                spans = np.where(component == 0, spans, steps.span)
            return goal_rows, spans, goal_index
        goal_rows, goal_spans, goal_index = steps.row.copy(), steps.span.copy(), np.zeros_like(steps.number)
        for number, each in enumerate(components):
            chosen = np.flatnonzero(component == number)
            if len(chosen):
                found = self._select(each, Steps(*[column[chosen] for column in steps]), rng)
                goal_rows[chosen], goal_spans[chosen], goal_index[chosen] = found
        return goal_rows, goal_spans, goal_index

    def _select(
        self, component: MixtureComponent, steps: Steps, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Do the same as `_select_goals` for steps that all have the same strategy, ``component``."""
        if component.select is not None:
            s = component.select(steps.t, steps.length, rng)
            ahead = s - steps.t
            return steps.row + ahead, steps.span, steps.number + ahead - 1
        others = self._look_up(uniform_below(len(self), len(steps.number), rng))
        return others.row + 1, others.span if component.takes_desired else steps.span, others.number

    def sampler_state(self) -> dict[str, Json]:
        """Return a state with which `restore_sampler` continues the same sequence of batches."""
        if self._stored is not self.storage.stored:
            return {"generator": self.rng.bit_generator.state, "batch_size": 0, "batches": 0, "used": 0}
        numbers = {"batch_size": self._batch_size, "batches": len(self._draws), "used": self._used}
        return {"generator": self._generator, **numbers}

    def restore_sampler(self, state: dict[str, Any]) -> None:
        """Continue at a saved state of the sequence of batches; episodes and priorities must be unchanged."""
        self._drop_draws()
        self.rng.bit_generator.state = state["generator"]
        if state["batches"]:
            self._prefetch(state["batches"], state["batch_size"])
            self._used = state["used"]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the drawn batches; `__setstate__` draws them again."""
        return self.__dict__ | {"_stored": None, "_draws": None, "sampler": self.sampler_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state. Batches that were drawn in advance are not in the state, so draw them again."""
        sampler = state.pop("sampler")
        self.__dict__.update(state)
        self.restore_sampler(sampler)

    # --- values of batches ------------------------------------------------------------------------

    def _make_batch(self, draw: Draw, beta: float | None = None) -> Batch:
        goals = self.storage.take_goals(draw.goal_rows, draw.goal_spans, *draw.counts)
        weights = draw.weights if self.priorities is None else self.priorities.weights(draw.weights, beta)
        if draw.steps_left is None:
            terminated, truncated, goal_independent = draw.flags
            steps = self.storage.take_steps(draw.rows, goals)
            outcome = terminated, truncated, draw.discounts
            batch = Batch(*steps, *outcome, weights, draw.relabeled, draw.index)
            self._relabel(batch, goal_independent, draw.counts[1])
            np.putmask(batch.discounts, batch.terminations, 0)
        else:
            batch = self._make_windows(draw, draw.steps_left, goals, weights)
        names = self.options.mixture.names
        batch.provenance = Provenance(draw.episode, draw.goal_index, draw.component, names)
        return batch

    def _make_windows(self, draw: Draw, left: np.ndarray, goals: np.ndarray, weights: np.ndarray) -> Batch:
        """Return a batch with n-step returns; ``goals`` are those of its B rows."""
        # The window of a row has `left` steps, or fewer if a step terminates under the row's goal. So all of
        # its steps are relabeled first, and their rewards are summed afterwards.
        storage, index, row, relabeled = self.storage, draw.index, draw.rows[0], draw.relabeled
        order = np.arange(int(left.max()))
        # Short windows are padded with copies of their last step.
        ahead = np.minimum(order, left[:, None] - 1)
        is_last = (ahead == draw.steps_to_end[:, None] - 1).reshape(-1)

        def repeated(values: np.ndarray) -> np.ndarray:
            return values.repeat(len(order), 0)

        rows = (row[:, None] + ahead).reshape(-1)
        terminated, truncated, goal_independent = draw.end_flags.repeat(len(order), 1) & is_last
        singles = Batch(
            *storage.take_steps(np.array((rows, rows + 1)), goals.repeat(len(order), 1)),
            *(terminated, truncated, repeated(draw.discounts), repeated(weights), repeated(relabeled)),
            index=(index[:, None] + ahead).reshape(-1),
        )
        self._relabel(singles, goal_independent, draw.counts[1] * len(order))

        gamma_powers = self.options.gamma ** np.arange(len(order) + 1.0)
        rewards, terminations, truncations = (  # NumPy sums contiguous columns in half the time
            np.ascontiguousarray(each.reshape(-1, len(order)).T)
            for each in (singles.rewards, singles.terminations, singles.truncations)
        )
        # False after the first step that terminates.
        counted = (order[:, None] < left) & (terminations.cumsum(0) <= terminations)
        lengths = counted.sum(0)
        terminated, truncated = (np.asarray((each & counted).any(0)) for each in (terminations, truncations))
        returns = (rewards * counted * gamma_powers[:-1, None]).sum(0).astype(np.float32)
        discounts = (gamma_powers[lengths] * ~terminated).astype(np.float32)
        observations, actions, _, after = storage.take_steps(np.array((row, row + lengths)), goals)
        outcome = returns, after, terminated, truncated, discounts
        return Batch(observations, actions, *outcome, weights, relabeled, index)

    def _relabel(self, batch: Batch, goal_independent: np.ndarray, num_relabeled: int) -> None:
        """Write the rewards and terminations for the new goals to the relabeled rows of ``batch``."""
        if not num_relabeled:
            return
        if self.relabeler is None:
            functions_missing()
        infos, count = self.storage.take_infos(batch.index), num_relabeled
        outcome = self.relabeler.relabel(batch, infos, goal_independent, count)
        batch.rewards[:count], batch.terminations[:count] = outcome

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> int:
        """Set the priorities of steps; return how many steps in ``index`` are no longer stored."""
        if self.priorities is None:
            raise ValueError("this buffer has no priorities; make it with prioritized=Priority()")
        stored = self.storage.stored
        self.priorities.set_stored(stored.first, stored.end)
        ignored = self.priorities.update(index, priorities)
        self._drop_draws()
        return ignored

    def statistics(self, batch_size: int) -> Statistics:
        """Return statistics of the episodes and of a batch, drawn with a copy of the random generator."""
        stored = self.storage.stored
        [draw] = self._draw(1, batch_size, copy.deepcopy(self.rng))
        batch = self._make_batch(draw)
        is_trivial = np.zeros(0, np.bool_)
        if self.relabeler is not None and batch.relabeled.any():
            is_trivial = self.relabeler.are_trivial(batch, self.storage.take_infos(batch.index))
        counts = {"num_transitions": len(self), "num_episodes": stored.num_episodes, "nbytes": self.nbytes}
        return statistics_of(batch, batch.goal_index - batch.index, is_trivial, **counts)

    def _require_changeable(self) -> None:
        if self.is_fixed:
            raise RuntimeError("buffer.demonstrations is read-only; add episodes to the buffer instead")

    def clear(self) -> None:
        """Remove all steps; the numbers of removed steps are not used again."""
        self._require_changeable()
        self.storage.clear(self.storage.stored.end)
        if self.relabeler is not None:
            self.relabeler.seen = SeenRewards()
        if self.checks is not None:
            self.checks.num_added = 0
        if self.priorities is not None:
            self.priorities.largest = INITIAL_PRIORITY
