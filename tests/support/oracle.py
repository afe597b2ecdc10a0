"""An oracle of the replay buffer, in plain Python lists: its content, and the rows that it may return.

The oracle gets the same calls as a buffer. `check` compares the content of the buffer, and `check_batch`
explains each row of a batch: it is a step of a stored episode, with one of the goals that its strategy may
choose, and with the rewards and flags that follow from this step and goal.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from her_wrappers import Batch, Episode, HindsightReplayBuffer, Mixture, Priority
from tests.support.counting import World, leaves_of

SOURCES = {
    "future": lambda t, length: range(t + 1, length + 1),
    "geometric": lambda t, length: range(t + 1, length + 1),
    "final": lambda t, length: [length],
    "episode": lambda t, length: range(1, length + 1),
    "halfway": lambda t, length: range((t + length) // 2 + 1, length + 1),
}
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


@dataclass
class Stored:
    """An episode of T steps: T + 1 states, T actions, rewards and infos; ``first`` numbers step 0."""

    first: int
    states: list[dict[str, Any]]
    actions: list[Any]
    rewards: list[float]
    infos: list[dict[str, Any]]
    terminated: bool
    truncated: bool

    def __len__(self) -> int:
        return len(self.actions)


class Oracle:
    """The expected content of a buffer.

    Args:
        world: Spaces and functions of the buffer.
        options: The other arguments of the buffer; a missing one has its default value.
    """

    def __init__(self, world: World, **options: Any) -> None:
        self.world, self.buffer_size = world, options["buffer_size"]
        self.n_steps, self.gamma = options.get("n_steps", 1), options.get("gamma", 0.99)
        self.termination = options.get("termination") or "recompute"
        if options.get("termination", "") is None and options.get("compute_terminated", "") is None:
            self.termination = "keep"
        self.shares = shares_of(**options)
        self.priority: Priority | None = options.get("prioritized")
        self.episodes: list[Stored] = []
        self.open: dict[int, tuple[Episode, int]] = {}  # episode and number of steps of each environment
        self.priorities: dict[int, float] = {}  # by step number
        self.largest, self.next_step = 1.0, 0

    def __len__(self) -> int:
        return sum(map(len, self.episodes))

    # --- the calls of a buffer --------------------------------------------------------------------

    def add_episode(self, episode: Episode, steps: int | None = None) -> None:
        """Store an episode, or its first ``steps`` truncated; evict the oldest episodes as far as needed."""
        length = len(episode)
        stored = Stored(
            self.next_step,
            rows_of(episode.observations, length + 1)[: (steps or length) + 1],
            rows_of(episode.actions, length)[:steps],
            np.asarray(episode.rewards).astype(np.float32).tolist()[:steps],
            rows_of(episode.infos, length)[:steps] if episode.infos else [{}] * length,
            bool(episode.terminated) and not steps,
            bool(episode.truncated) or bool(steps),
        )
        self.episodes.append(stored)
        self.next_step += len(stored)
        self.priorities |= dict.fromkeys(range(stored.first, self.next_step), self.largest)
        self.resize(self.buffer_size)

    def add_step(self, env: int, episode: Episode, t: int) -> None:
        """Add step ``t`` of an episode that environment ``env`` plays; its last step stores the episode."""
        self.open[env] = episode, t + 1
        if t + 1 == len(episode):
            del self.open[env]
            self.add_episode(episode)

    def truncate_open_episode(self) -> None:
        """Store the steps of the open episodes as truncated episodes."""
        for _, (episode, steps) in sorted(self.open.items()):
            self.add_episode(episode, steps)
        self.open.clear()

    def resize(self, buffer_size: int) -> None:
        """Change the size, and evict the oldest episodes as far as needed."""
        self.buffer_size = buffer_size
        while len(self) > buffer_size:
            oldest = self.episodes.pop(0)
            for number in range(oldest.first, oldest.first + len(oldest)):
                del self.priorities[number]

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
        self.episodes.clear()
        self.open.clear()
        self.priorities.clear()
        self.largest = 1.0

    # --- what a buffer may return -----------------------------------------------------------------

    def check(self, buffer: HindsightReplayBuffer) -> None:
        """Assert that a buffer has this content."""
        buffer.verify()
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
            for leaf_space, leaf in zip(leaf_spaces(each), leaves_of(tree), strict=True):
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

    def find(self, index: int) -> tuple[Stored, int]:
        """Return the episode and the step with a step number."""
        [found] = [each for each in self.episodes if each.first <= index < each.first + len(each)]
        return found, index - found.first

    def sources(self, strategy: str, episode: Stored, t: int) -> list[int]:
        """Return the step numbers that may supply the goal of step t; each is equally likely if uniform."""
        if strategy in {"random", "desired"}:
            return [each.first + step for each in self.episodes for step in range(len(each))]
        states = SOURCES["geometric" if strategy.startswith("Geometric") else strategy](t, len(episode))
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
            goal = [source.states[before + 1][which]]
        else:
            assert row["goal_index"] == -1
        rewards, terminates = self.window(episode, t, goal)
        end = t + len(rewards)
        here, there = (
            state | ({"desired_goal": goal[0]} if goal else {})
            for state in (episode.states[t], episode.states[end])
        )
        assert row["observations"] == here
        assert row["next_observations"] == there
        assert row["actions"] == episode.actions[t]
        assert row["terminations"] == terminates
        assert row["truncations"] == (end == len(episode) and episode.truncated)
        returned = sum(self.gamma**k * reward for k, reward in enumerate(rewards))
        exact = self.n_steps == 1
        assert row["rewards"] == (
            np.float32(returned) if exact else pytest.approx(returned, rel=1e-5, abs=1e-5)
        )
        discount = 0 if terminates else self.gamma ** len(rewards)
        assert row["discounts"] == pytest.approx(discount, rel=1e-6)

    def window(self, episode: Stored, t: int, goal: list[Any] | None) -> tuple[list[float], bool]:
        """Return the rewards of the window that begins at step t, and whether its last step terminates.

        ``goal`` has the new goal of a relabeled row; it is None for an original row, whose window ends before
        a step at which the desired goal changes.
        """
        rewards: list[float] = []
        while True:
            s = t + len(rewards)
            last = s + 1 == len(episode)
            if goal:
                rewards.append(self.reward(episode, s, goal[0]))
                terminates, changes = self.terminates(episode, s, goal[0]), False
            else:
                rewards.append(episode.rewards[s])
                goals = [state["desired_goal"] for state in episode.states[t : s + 3]]
                terminates, changes = episode.terminated and last, any(each != goals[0] for each in goals)
            if terminates or changes or last or len(rewards) == self.n_steps:
                return rewards, terminates

    def reward(self, episode: Stored, t: int, goal: Any) -> float:
        """Return the reward of a step under a goal."""
        here, achieved = episode.states[t]["observation"], episode.states[t + 1]["achieved_goal"]
        return self.world.reward_of_step(here, episode.actions[t], achieved, goal, episode.infos[t])

    def terminates(self, episode: Stored, t: int, goal: Any) -> bool:
        """Return whether a step terminates under a new goal."""
        ended = episode.terminated and t + 1 == len(episode)
        if self.termination in {"keep", "never"}:
            return ended and self.termination == "keep"
        own_goal = episode.states[t + 1]["desired_goal"]
        return self._reaches(episode, t, goal) or (ended and not self._reaches(episode, t, own_goal))

    def _reaches(self, episode: Stored, t: int, goal: Any) -> bool:
        if self.termination == "success":
            return self.reward(episode, t, goal) == 0
        return self.world.terminates(episode.states[t + 1]["achieved_goal"], goal, episode.infos[t])


def leaf_spaces(space: Any) -> list[Any]:
    """Return the spaces of the leaves of a space, in the order of `leaves_of`."""
    if hasattr(space, "spaces"):
        parts = space.spaces.values() if isinstance(space.spaces, dict) else space.spaces
        return [leaf for part in parts for leaf in leaf_spaces(part)]
    return [space]


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
