"""Batches: what was drawn, gathered, relabeled, and added up where it is more than single steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.replay.batch import Provenance

if TYPE_CHECKING:
    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.priorities.stored import NoPriorities, Priorities
    from her_wrappers.replay.relabeling.relabeling import AnyRelabeling
    from her_wrappers.replay.sampling.draws import Draws
    from her_wrappers.replay.sampling.windows import MakeWindows
    from her_wrappers.replay.storage.draw import Draw
    from her_wrappers.replay.storage.episode_storage import EpisodeStorage
    from her_wrappers.replay.storage.step_layout import StepLayout
    from her_wrappers.replay.storage.steps import Records, Steps


@dataclass(frozen=True, eq=False)
class Batches:
    """Makes batches of what was drawn.

    Attributes:
        storage: Where the steps are.
        layout: Of the steps.
        relabeling: Asks the functions of goals.
        priorities: By which steps were drawn.
        windows: Makes the windows of a batch.
        n_steps: Steps of a window.
        gamma: Discount factor of a step.
        names: Of the parts of a batch.
    """

    storage: EpisodeStorage
    layout: StepLayout
    relabeling: AnyRelabeling
    priorities: Priorities | NoPriorities
    windows: MakeWindows
    n_steps: int
    gamma: float
    names: tuple[str, ...]

    def next(self, draws: Draws, batch_size: int, beta: float | None = None) -> Batch:
        """Return the next batch, where the storage has its records.

        Args:
            draws: Where its rows come from.
            batch_size: Number of transitions, B.
            beta: For its weights, instead of that of the priorities.

        Raises:
            ValueError: There is nothing to draw from, or an argument or a function's answer is wrong.
        """
        self.priorities.require_beta(beta)
        draw, count = draws.next(batch_size)
        weights = self.priorities.weights(draw, beta)
        desired = self.storage.desired_goals(draw.sources[:count], draw.places[count:])
        if self.n_steps == 1:
            steps = self.storage.take(draw.numbers, draw.states, desired)
            batch = self._relabel(steps, (draw.discounts, weights, draw.relabeled), count)
        else:
            batch = self._add_up(draw, desired, weights, count)
        batch.provenance = Provenance(draw.first_index, draw.goal_index, draw.part, self.names)
        return batch

    def _relabel(self, steps: Steps, columns: tuple[Any, Any, Any], count: int) -> Batch:
        """Return single steps, of which the first ``count`` are relabeled.

        Args:
            steps: They.
            columns: Their discounts if none terminates, their weights, and which are relabeled.
            count: How many are.
        """
        batch = self.layout.batch(steps, *columns)
        if count:
            self.relabeling.relabel(batch, steps, count)
        end_at(batch.discounts, batch.terminations)
        return batch

    def _add_up(self, draw: Draw, desired: Records, weights: Any, count: int) -> Batch:
        """Return windows of steps, of which the first ``count`` are relabeled."""
        storage, first = self.storage, draw.states[0]
        windows = self.windows(draw.left, self.n_steps)
        numbers, begins = windows.steps(draw.numbers), windows.steps(first)
        steps = storage.take(numbers, storage.between(begins, begins + 1), windows.spread(desired))
        of_steps = windows.spread(draw.discounts), windows.spread(weights), windows.spread(draw.relabeled)
        singles = self._relabel(steps, of_steps, count * windows.width)
        returns = windows.returns(singles, self.gamma)
        between = storage.between(first, first + returns.lengths)
        ends = storage.take(draw.numbers, between, desired)
        batch = self.layout.batch(ends, returns.discounts, weights, draw.relabeled)
        batch.rewards = returns.rewards
        batch.terminations, batch.truncations = returns.terminations, returns.truncations
        return batch


def end_at(discounts: Any, terminations: Any) -> None:
    """Set the (B,) discounts to 0 where steps terminate.

    Takes NumPy arrays or torch tensors.
    """
    if isinstance(discounts, np.ndarray):
        discounts[terminations] = 0  # a product takes twice as long
    else:
        discounts.masked_fill_(terminations, 0)
