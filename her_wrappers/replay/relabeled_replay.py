"""RelabeledReplay: stored episodes, and batches of their steps with new goals.

A batch is made in three steps: the `Sampler` draws steps and the origins of their new goals, the `RowStorage`
copies their values, and the `Relabeler` computes rewards and terminations for the new goals.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.batch import Batch, Provenance, Statistics, statistics_of
from her_wrappers.replay.options import BufferOptions, functions_missing
from her_wrappers.replay.priorities import INITIAL_PRIORITY, PrioritySampler
from her_wrappers.replay.relabeling import Relabeler, SeenRewards, resolve_termination
from her_wrappers.replay.relabeling_warnings import EpisodeChecks
from her_wrappers.replay.rows import RowStorage
from her_wrappers.replay.sampling import Draw, Sampler


class RelabeledReplay:
    """Stores the complete episodes of a buffer and samples batches; has no lock, open episodes or torch.

    ``first`` is the number of the first step that will be added.
    """

    demonstrations: RelabeledReplay | None = None
    share: float | None = None  # of demonstrations in each batch

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        options: BufferOptions,
        first: int = 0,
    ) -> None:
        size, keys = options.buffer_size, options.info_keys
        self.storage = RowStorage(observation_space, action_space, size, keys, first)
        self.relabeler: Relabeler | None = None  # None if nothing is relabeled, or the functions are missing
        if options.can_relabel:
            goal_space = observation_space["achieved_goal"]
            rule = resolve_termination(options.termination, options.compute_terminated, goal_space)
            if options.termination is None and rule.mode == "recompute":
                options = replace(options, termination="recompute")  # also after a load without functions
            functions = options.compute_reward, options.reward_fn
            self.relabeler = Relabeler(*functions, rule, options.info_keys, options.gamma)
        self.options = options
        self.checks = self._make_checks(action_space)
        priority = options.prioritized
        self.priorities = None if priority is None else PrioritySampler(size, priority)
        self.sampler = Sampler(self.storage, self.priorities, options)

    def _make_checks(self, action_space: spaces.Space[Any] | None) -> EpisodeChecks | None:
        """Return the checks of episodes that will be added; None if nothing is relabeled."""
        if self.relabeler is None:
            return None
        checks = EpisodeChecks(self.relabeler, action_space)
        if self.relabeler.rule.mode == "success" and self.options.mixture.has_no_original:
            checks.warned.add("missing terminations")  # no original row contradicts the rule
        return checks

    def __len__(self) -> int:
        """Return the number of stored steps."""
        return self.storage.stored.num_steps

    @property
    def nbytes(self) -> int:
        """Allocated memory in bytes."""
        return self.storage.nbytes + (0 if self.priorities is None else self.priorities.nbytes)

    def add(self, episodes: Sequence[Episode]) -> None:
        """Validate and store episodes; check some of them, and warn if relabeling would be wrong."""
        validated = self._validated(episodes)
        goal_independent = np.zeros(len(validated.lengths), np.bool_)
        if self.relabeler is None or self.checks is None:
            self.storage.add(validated, goal_independent)
            return
        self.checks.inspect(validated)
        if self.relabeler.rule.mode == "success" or validated.terminated.any():
            # The relabeler must know the rewards of all stored steps, also after an interruption.
            goal_independent, self.relabeler.seen = self.relabeler.goal_independent(validated)
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

    def sample(self, batch_size: int, beta: float | None) -> Batch:
        """Sample a batch; see `HindsightReplayBuffer.sample`."""
        return self._make_batch(self.sampler.next(batch_size), beta)

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
        batch.provenance = Provenance(
            draw.episode, draw.goal_index, draw.component, self.options.mixture.names
        )
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
        with np.errstate(over="ignore"):  # too large sums become infinite, and are rejected
            returns = (rewards * counted * gamma_powers[:-1, None]).sum(0).astype(np.float32)
        if not np.isfinite(returns).all():
            i = int(np.isfinite(returns).argmin())
            raise ValueError(
                f"the sum of {lengths[i]} rewards is too large for float32, got {returns[i]} at row {i} of "
                "the batch; scale the rewards down, or reduce n_steps="
            )
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

    def infos(self, index: np.ndarray) -> dict[str, Any]:
        """Return the infos of steps; raise ValueError if one is not stored."""
        stored = self.storage.stored
        wrong = index[(index < stored.first) | (index >= stored.end)]
        if wrong.size:
            raise ValueError(
                f"index must have step numbers of stored steps, {stored.first} to {stored.end - 1}, got "
                f"{wrong[0]}; smaller numbers are those of evicted steps or of buffer.demonstrations"
            )
        return self.storage.take_infos(index)

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> int:
        """Set the priorities of steps; return how many steps in ``index`` are no longer stored."""
        if self.priorities is None:
            raise ValueError("this buffer has no priorities; make it with prioritized=Priority()")
        stored = self.storage.stored
        self.priorities.follow(stored.first, stored.end)
        ignored = self.priorities.update(index, priorities)
        self.sampler.invalidate()
        return ignored

    def statistics(self, batch_size: int) -> Statistics:
        """Return statistics of the episodes and of a batch, drawn with a copy of the random generator."""
        stored = self.storage.stored
        [draw] = self.sampler.draw(1, batch_size, copy.deepcopy(self.sampler.rng))
        batch = self._make_batch(draw)
        is_trivial = np.zeros(0, np.bool_)
        if self.relabeler is not None and batch.relabeled.any():
            is_trivial = self.relabeler.are_trivial(batch, self.storage.take_infos(batch.index))
        counts = {"num_transitions": len(self), "num_episodes": stored.num_episodes, "nbytes": self.nbytes}
        return statistics_of(batch, batch.goal_index - batch.index, is_trivial, **counts)

    def clear(self) -> None:
        """Remove all steps; the numbers of removed steps are not used again."""
        self.storage.clear(self.storage.stored.end)
        if self.relabeler is not None:
            self.relabeler.seen = SeenRewards()
            self.checks = self._make_checks(None if self.checks is None else self.checks.action_space)
        if self.priorities is not None:
            self.priorities.largest = INITIAL_PRIORITY
