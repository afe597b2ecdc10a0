"""The conformance suite's oracle, with the calls of `HindsightReplayBuffer` and plain Python lists.

The oracle gets the same calls as a buffer. `check` compares the content of the buffer, and `check_batch`
explains each row of a batch: it is a step of a stored episode, with one of the goals that its strategy may
choose, and with the rewards and flags that follow from this step and goal.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from her_wrappers import Batch, Episode, HindsightReplayBuffer, Mixture, Priority
from her_wrappers.conformance.oracle import SOURCES, Oracle, StoredEpisode
from her_wrappers.data.spaces import leaf_spaces
from tests.support.counting import World, leaves_of

STATES = SOURCES | {"halfway": lambda t, length: range((t + length) // 2 + 1, length + 1)}
"""States of an episode whose achieved goal may replace the goal of step t."""


def halfway(t, length, rng):
    """Choose a state in the second half of the states after step ``t``: a strategy of the user's own."""
    return rng.integers((t + length) // 2 + 1, length + 1)


def rows_of(tree: Any, count: int) -> list[Any]:
    """Return the rows of a tree of (count, ...) arrays as plain Python values."""
    if isinstance(tree, dict):
        columns = [rows_of(part, count) for part in tree.values()]
        return [dict(zip(tree, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(tree, tuple):
        return [list(row) for row in zip(*(rows_of(part, count) for part in tree), strict=True)]
    assert len(tree) == count
    return tree.tolist()


class ExpectedBuffer(Oracle):
    """The oracle of a `HindsightReplayBuffer`, which gets the calls of the buffer, and checks its batches.

    Args:
        world: Spaces and functions of the buffer.
        options: The other arguments of the buffer; a missing one has its default value.
    """

    checks_shares = True

    def __init__(self, world: World, **options: Any) -> None:
        termination = options.get("termination") or "recompute"
        if options.get("termination", "") is None and options.get("compute_terminated", "") is None:
            termination = "keep"
        given = {key: options[key] for key in ("buffer_size", "n_steps", "gamma") if key in options}
        super().__init__(world.reward_of_step, world.terminates, termination=termination, **given)
        self.world, self.shares = world, shares_of(**options)
        self.priority: Priority | None = options.get("prioritized")
        self.playing: dict[int, tuple[Episode, int]] = {}  # episode and number of steps of each environment
        self._whole: dict[int, StoredEpisode] = {}  # the same episodes, of which all steps are known
        self.priorities: dict[int, float] = {}  # by step number
        self.largest = 1.0

    # --- the calls of a buffer --------------------------------------------------------------------

    def add_episode(self, episode: Episode | StoredEpisode) -> None:
        """Store an episode; evict the oldest episodes as far as needed."""
        if isinstance(episode, Episode):
            episode = self.stored(episode)
        first = self.next_step
        super().add_episode(episode)
        self.priorities |= dict.fromkeys(range(first, self.next_step), self.largest)

    @staticmethod
    def stored(episode: Episode) -> StoredEpisode:
        """Return an episode as plain Python values."""
        length = len(episode)
        return StoredEpisode(
            rows_of(episode.observations, length + 1),
            rows_of(episode.actions, length),
            np.asarray(episode.rewards).astype(np.float32).tolist(),
            rows_of(episode.infos, length) if episode.infos else [{}] * length,
            bool(episode.terminated),
            bool(episode.truncated),
        )

    def add_step(self, env: int, episode: Episode, t: int) -> None:
        """Add step ``t`` of an episode that environment ``env`` plays; its last step stores the episode."""
        if t == 0:
            self._whole[env] = self.stored(episode)
        self.playing[env] = episode, t + 1
        if t + 1 == len(episode):
            del self.playing[env]
        self.add(self._whole[env], t, env)

    def truncate_open_episode(self) -> None:
        """Store the steps of the open episodes as truncated episodes."""
        for env in sorted(self.open):
            self.end_episode(env)
        self.playing.clear()

    def resize(self, buffer_size: int) -> list[StoredEpisode]:
        """Change the size, and evict the oldest episodes as far as needed."""
        evicted = super().resize(buffer_size)
        for episode in evicted:
            for number in range(episode.first, episode.first + len(episode)):
                self.priorities.pop(number, None)
        return evicted

    def update_priorities(self, index: Any, priorities: Any) -> int:
        """Set each priority to its largest new value; return the number of indices that are not stored."""
        best: dict[int, float] = {}
        for number, priority in zip(index, priorities, strict=True):
            if number in self.priorities:
                best[number] = max(priority, best.get(number, 0.0))
        self.priorities |= best
        self.largest = max([self.largest, *best.values()])
        return sum(number not in self.priorities for number in index)

    def clear(self) -> None:
        """Remove all episodes, open ones too; step numbers continue."""
        for each in (self.episodes, self.open, self.playing, self.priorities):
            each.clear()
        self.largest = 1.0

    # --- what a buffer may return -----------------------------------------------------------------

    def find(self, index: int) -> tuple[StoredEpisode, int]:
        """Return the episode and the step with a step number."""
        [found] = [each for each in self.episodes if each.first <= index < each.first + len(each)]
        return found, index - found.first

    def check(self, buffer: HindsightReplayBuffer) -> None:
        """Assert that a buffer has this content."""
        assert (len(buffer), buffer.num_episodes) == (len(self), len(self.episodes))
        assert (buffer.buffer_size, buffer.can_sample) == (self.buffer_size, len(self) > 0)
        for found, stored in zip(buffer.episodes(), self.episodes, strict=True):
            assert rows_of(found.observations, len(stored) + 1) == stored.states
            assert rows_of(found.actions, len(stored)) == stored.actions
            assert found.rewards.tolist() == stored.rewards
            assert (found.terminated, found.truncated) == (stored.terminated, stored.truncated)
            if self.world.info_keys:
                assert rows_of(found.infos, len(stored)) == stored.infos

    def check_batch(self, batch: Batch, batch_size: int) -> None:
        """Assert that a batch is correct."""
        batch = batch.to_numpy()
        self._check_arrays(batch, batch_size)
        if self.checks_shares:
            self._check_shares(batch)
        self._check_weights(batch)
        columns = {
            name: rows_of(getattr(batch, name), batch_size)
            for name in (
                "observations", "actions", "rewards", "next_observations", "terminations", "truncations",
                "discounts", "relabeled", "index", "episode", "goal_index", "strategy",
            )
        }  # fmt: skip
        for values in zip(*columns.values(), strict=True):
            self._check_row(dict(zip(columns, values, strict=True)))

    def _check_arrays(self, batch: Batch, batch_size: int) -> None:
        """Assert that arrays have their dtypes and shapes, and that no two of them overlap."""
        kinds = {
            np.float32: ("rewards", "discounts", "weights"),
            np.int64: ("index", "episode", "goal_index"),
            np.bool_: ("terminations", "truncations", "relabeled"),
        }
        for dtype, names in kinds.items():
            for column in (getattr(batch, name) for name in names):
                assert (column.dtype, column.shape) == (dtype, (batch_size,))
        space, trees = self.world.space, (batch.observations, batch.next_observations, batch.actions)
        for each, tree in zip((space, space, self.world.action_space), trees, strict=True):
            for leaf_space, leaf in zip(leaf_spaces(each).values(), leaves_of(tree), strict=True):
                assert (leaf.dtype, leaf.shape) == (leaf_space.dtype, (batch_size, *leaf_space.shape))
        arrays: list[np.ndarray] = []
        batch.map(lambda array: arrays.append(array) or array)
        for one, other in itertools.combinations(arrays, 2):
            assert not np.shares_memory(one, other)

    def _check_shares(self, batch: Batch) -> None:
        """Assert that each strategy has its share up to one row, and that relabeled rows come first."""
        found = batch.strategy.tolist()
        for name in {*self.shares, *found}:
            assert abs(found.count(name) - self.shares[name] * len(batch)) < 1, name
        assert batch.relabeled.tolist() == sorted(batch.relabeled.tolist(), reverse=True)

    def _check_weights(self, batch: Batch) -> None:
        if self.priority is None:
            assert batch.weights.tolist() == [1] * len(batch)
            return
        odds = self.odds()
        share = np.array([odds[number] for number in batch.index.tolist()]) / sum(odds.values())
        weights = (len(odds) * share) ** -self.priority.beta
        np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-5)

    def odds(self) -> dict[int, float]:
        """Return the scaled priority of each step number."""
        if self.priority is None:
            return dict.fromkeys(self.priorities, 1.0)
        eps, alpha = self.priority.eps, self.priority.alpha
        return {number: (priority + eps) ** alpha for number, priority in self.priorities.items()}

    def sources(self, strategy: str, episode: StoredEpisode, t: int) -> list[int]:
        """Return the step numbers that may supply the goal of step t; each is equally likely if uniform."""
        if strategy in {"random", "desired"}:
            return [each.first + step for each in self.episodes for step in range(len(each))]
        states = STATES["geometric" if strategy.startswith("Geometric") else strategy](t, len(episode))
        return [episode.first + s - 1 for s in states]

    def _check_row(self, row: dict[str, Any]) -> None:
        episode, t = self.find(row["index"])
        assert row["episode"] == episode.first
        assert row["relabeled"] == (row["strategy"] != "original")
        goal = None
        if row["relabeled"]:
            assert row["goal_index"] in self.sources(row["strategy"], episode, t)
            source, before = self.find(row["goal_index"])
            which = "desired_goal" if row["strategy"] == "desired" else "achieved_goal"
            goal = source.states[before + 1][which]
        else:
            assert row["goal_index"] == -1
        expected = self.row(episode, t, goal)
        here, there = (
            state | ({} if goal is None else {"desired_goal": goal})
            for state in (episode.states[t], episode.states[expected.end])
        )
        assert row["observations"] == here
        assert row["next_observations"] == there
        assert row["actions"] == episode.actions[t]
        assert row["terminations"] == expected.terminated
        assert row["truncations"] == expected.truncated
        returned = expected.reward
        exact = self.n_steps == 1
        assert row["rewards"] == (
            np.float32(returned) if exact else pytest.approx(returned, rel=1e-5, abs=1e-5)
        )
        assert row["discounts"] == pytest.approx(expected.discount, rel=1e-6)


def shares_of(
    goal_selection_strategy: Any = "future",
    n_sampled_goal: int | None = None,
    **_: Any,
) -> dict[str, float]:
    """Return the share of each strategy in all rows, by name."""
    mixture = goal_selection_strategy
    shares = mixture.shares if isinstance(mixture, Mixture) else {mixture: 1.0}
    named = {name_of(strategy): share for strategy, share in shares.items()}
    if "original" in named:
        return named
    k = 4 if n_sampled_goal is None else n_sampled_goal
    total = k / (k + 1)
    return {name: share * total for name, share in named.items()} | {"original": 1 - total}


def name_of(strategy: Any) -> str:
    """Return the name of a strategy in a batch."""
    return strategy if isinstance(strategy, str) else getattr(strategy, "__name__", repr(strategy))
