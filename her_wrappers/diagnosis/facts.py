"""Facts of recorded episodes: numbers that rules read, computed from the columns at their first use."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from her_wrappers.diagnosis.columns import Bounds, Columns

SPARSE_PAIRS = ((-1.0, 0.0), (0.0, 1.0))
"""Rewards of a missed and a reached goal that environments with sparse rewards use."""

MOVED = 0.01
"""Share of the distance in `Facts.has_moved` by which an achieved goal must move to count as moved."""


class Facts(Columns):
    """Columns of episodes, with the numbers that are derived from them."""

    @cached_property
    def offsets(self) -> np.ndarray:
        """(n + 1,) int64: episode i has the steps ``offsets[i]`` to ``offsets[i + 1] - 1``."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def goal_width(self) -> np.ndarray:
        """(G,) float64, largest minus smallest value of each component of all achieved and desired goals."""
        return Bounds.joined([self.achieved, self.desired_bounds]).width

    @cached_property
    def has_moved(self) -> np.ndarray:
        """(n,) bool, whether the achieved goal moved from its start by more than `MOVED` times a distance.

        This distance is the median distance to the goal at the start. If the box of all achieved goals has a
        shorter diagonal, it is this diagonal, but at least a hundredth of the median.
        """
        way = float(np.median(self.start_distances))
        scale = max(min(way, float(np.linalg.norm(self.achieved.width))), 0.01 * way)
        moved: np.ndarray = self.moves > MOVED * scale
        return moved

    @cached_property
    def sparse_pair(self) -> tuple[float, float] | None:
        """Rewards of a missed and a reached goal: the first of `SPARSE_PAIRS` with all rewards, or None."""
        low, high = float(self.rewards.min()), float(self.rewards.max())
        for pair in SPARSE_PAIRS:
            if low in pair and high in pair and np.isin(self.rewards, pair).all():
                return pair
        return None

    @cached_property
    def num_rewards(self) -> int:
        """Number of different rewards, after rounding to 6 decimals, and at most 100."""
        return min(100, len(np.unique(np.round(self.rewards.astype(np.float64), 6))))

    @cached_property
    def success(self) -> np.ndarray | None:
        """(T,) bool, success of each step, by the recorded flags or else sparse rewards; None if unknown."""
        if (self.flags >= 0).all():
            return self.flags > 0
        return None if self.sparse_pair is None else self.rewards == self.sparse_pair[1]

    @cached_property
    def is_success_episode(self) -> np.ndarray:
        """(n,) bool, whether a step of the episode was a success; False if success is unknown."""
        if self.success is None:
            return np.zeros(len(self), np.bool_)
        succeeded: np.ndarray = np.logical_or.reduceat(self.success, self.offsets[:-1])
        return succeeded

    @cached_property
    def final_success(self) -> np.ndarray:
        """(n,) bool, whether the last step of the episode was a success; False if success is unknown."""
        if self.success is None:
            return np.zeros(len(self), np.bool_)
        last: np.ndarray = self.success[self.offsets[1:] - 1]
        return last

    @cached_property
    def success_steps(self) -> np.ndarray:
        """(m,) int64, number of steps up to the first success, for each of m episodes.

        These are the episodes with a success whose first state has not achieved the desired goal.
        """
        if self.success is None:
            return np.zeros(0, np.int64)
        begins = self.offsets[:-1].repeat(self.lengths)
        steps = np.where(self.success, np.arange(len(begins)) - begins + 1, np.iinfo(np.int64).max)
        first: np.ndarray = np.minimum.reduceat(steps, self.offsets[:-1])
        successful: np.ndarray = first[self.is_success_episode & (self.start_distances > self.tolerance)]
        return successful

    @cached_property
    def radius(self) -> float:
        """Estimated distance to the goal within which a step is a success; 0 without successes.

        The radius is the largest distance to the goal in a successful step, or the smallest distance in
        another step if the latter is smaller.
        """
        if self.success is None or not self.success.any():
            return 0.0
        reached = float(self.distances[self.success].max())
        missed = self.distances[~self.success]
        return min(reached, float(missed.min())) if missed.size else reached

    @cached_property
    def tolerance(self) -> float:
        """Distance up to which goals count as equal: `radius`; without success, 1e-6 of the widest range."""
        if self.success is not None and self.success.any():
            return self.radius
        return 1e-6 * float(self.goal_width.max(initial=0))

    @cached_property
    def trivial_share(self) -> float:
        """Share of steps before which the achieved goal of a random later state was already achieved."""
        return float((self.future_distances <= self.tolerance).mean())

    @cached_property
    def solved_starts(self) -> float:
        """Share of the episodes whose first state has achieved the desired goal."""
        return float((self.start_distances <= self.tolerance).mean())

    @cached_property
    def steps_needed(self) -> np.ndarray:
        """(n,) float64, number of steps to the goal at the largest speed seen; 0 if no goal ever moves.

        The number is the distance from the start to the edge of the success radius, divided by the largest
        distance by which the achieved goal moved in any step.
        """
        fastest = float(self.speeds.max(initial=0))
        if fastest <= 0:
            return np.zeros(len(self))
        return np.maximum(0, self.start_distances - self.radius) / fastest

    @cached_property
    def time_limit(self) -> int | None:
        """Largest length, if at least nine in ten truncated episodes have this length; else None."""
        lengths = self.lengths[self.truncated & ~self.terminated]
        longest = int(self.lengths.max())
        return longest if lengths.size and (lengths == longest).mean() >= 0.9 else None

    @cached_property
    def outside_achieved(self) -> np.ndarray:
        """(n, G) bool, whether a component of the desired goal lies outside the range ever achieved.

        The range is extended on both sides by the radius or by 5 % of its width, whichever is larger.
        """
        margin = np.maximum(self.radius, 0.05 * self.achieved.width)
        low, high = self.achieved.low - margin, self.achieved.high + margin
        outside: np.ndarray = (self.desired < low) | (self.desired > high)
        return outside
