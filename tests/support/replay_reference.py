"""A reference buffer of plain Python lists, which checks the batches of `HindsightReplayBuffer`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from her_wrappers import Episode, Priority


def row(tree: Any, i: int) -> Any:
    """Return row i of a tree of arrays as plain Python values, exactly."""
    if isinstance(tree, dict):
        return {key: row(part, i) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return [row(part, i) for part in tree]
    return tree[i].tolist()


@dataclass
class Stored:
    """An episode of T steps: T + 1 states, T actions, rewards and infos, and the serial number of step 0."""

    first: int
    states: list[dict[str, Any]]
    actions: list[Any]
    rewards: list[float]
    infos: list[dict[str, Any]]
    terminated: bool
    truncated: bool

    def __len__(self) -> int:
        return len(self.actions)

    def achieved(self, s: int) -> Any:
        return self.states[s]["achieved_goal"]

    def new_goal(self, strategy: str, s: int) -> Any:
        """Return the goal that state s supplies for a relabeled row."""
        return self.states[s]["desired_goal" if strategy == "desired" else "achieved_goal"]


class Reference:
    """Expected content of a buffer, and the rows that it may return.

    Args:
        buffer_size: Maximum number of transitions.
        reward: Function of (achieved goal, desired goal, info) of one step that returns a number.
        terminated: Function of the same arguments that returns a bool.
        termination: Termination mode of relabeled rows, ``"recompute"`` for a termination function.
        n_steps: Maximum number of steps of a window.
        gamma: Discount factor.
    """

    def __init__(
        self,
        buffer_size: int,
        reward: Any,
        terminated: Any,
        termination: Any,
        *,
        n_steps: int = 1,
        gamma: float = 0.99,
    ) -> None:
        self.buffer_size, self.n_steps, self.gamma = buffer_size, n_steps, gamma
        self.reward, self.terminated, self.termination = reward, terminated, termination
        self.episodes: list[Stored] = []
        self.next_index = 0

    def add(self, episode: Episode) -> None:
        """Add an episode and evict the oldest as far as needed."""
        steps = range(len(episode))
        self.episodes.append(
            Stored(
                first=self.next_index,
                states=[row(episode.observations, s) for s in range(len(episode) + 1)],
                actions=[row(episode.actions, t) for t in steps],
                rewards=[float(np.float32(episode.rewards[t])) for t in steps],
                infos=[row(episode.infos, t) for t in steps],
                terminated=episode.terminated,
                truncated=episode.truncated,
            )
        )
        self.next_index += len(episode)
        self.shrink(self.buffer_size)

    def shrink(self, buffer_size: int) -> None:
        """Change the size and evict the oldest episodes as far as needed."""
        self.buffer_size = buffer_size
        while len(self) > buffer_size:
            del self.episodes[0]

    def clear(self) -> None:
        """Remove all episodes; serial numbers continue."""
        self.episodes.clear()

    def __len__(self) -> int:
        return sum(map(len, self.episodes))

    def find(self, index: int) -> tuple[Stored, int]:
        """Return the episode and the step with a serial number."""
        [(episode, t)] = [
            (episode, index - episode.first)
            for episode in self.episodes
            if episode.first <= index < episode.first + len(episode)
        ]
        return episode, t

    def sources(self, strategy: str, episode: Stored, t: int) -> list[tuple[Stored, int]]:
        """Return the states that may supply the goal of a step, as (episode, state)."""
        if strategy in {"random", "desired"}:
            return [(other, s) for other in self.episodes for s in range(1, len(other) + 1)]
        states = {
            "future": range(t + 1, len(episode) + 1),
            "geometric": range(t + 1, len(episode) + 1),
            "final": [len(episode)],
            "episode": range(1, len(episode) + 1),
        }[strategy]
        return [(episode, s) for s in states]

    def is_goal_independent_termination(self, episode: Stored, t: int) -> bool:
        """Return whether an episode terminated at a step independently of its goal."""
        if not (episode.terminated and t == len(episode) - 1):
            return False
        goals = episode.achieved(t + 1), episode.states[t + 1]["desired_goal"]
        if self.termination == "success":
            return self.reward(*goals, episode.infos[t]) != 0
        return not self.terminated(*goals, episode.infos[t])

    def terminates(self, episode: Stored, t: int, goal: Any) -> bool:
        """Return whether a step terminates under a new goal."""
        if self.termination == "keep":
            return episode.terminated and t == len(episode) - 1
        if self.termination == "never":
            return False
        reached = episode.achieved(t + 1), goal, episode.infos[t]
        by_goal = self.reward(*reached) == 0 if self.termination == "success" else self.terminated(*reached)
        return by_goal or self.is_goal_independent_termination(episode, t)

    def window(self, episode: Stored, t: int, new_goal: Any) -> tuple[list[float], bool]:
        """Return the rewards of the window that begins at step t, and whether its last step terminates.

        Args:
            episode: The episode.
            t: The first step.
            new_goal: The goal of a relabeled row, in a list; None for an original row.
        """
        rewards, goal = [], episode.states[t]["desired_goal"]
        while True:
            s = t + len(rewards)
            if new_goal:
                achieved = episode.achieved(s + 1)
                rewards.append(self.reward(achieved, new_goal[0], episode.infos[s]))
                terminates = self.terminates(episode, s, new_goal[0])
                continues = True
            else:
                rewards.append(episode.rewards[s])
                terminates = episode.terminated and s + 1 == len(episode)
                continues = all(state["desired_goal"] == goal for state in episode.states[t : s + 3])
            if terminates or not continues or s + 1 == len(episode) or len(rewards) == self.n_steps:
                return rewards, terminates

    def explain(self, batch: Any) -> None:
        """Assert that every row is correct."""
        for i in range(len(batch)):
            self._explain_row(batch, i)

    def _explain_row(self, batch: Any, i: int) -> None:
        episode, t = self.find(int(batch.index[i]))
        strategy, goal_index = str(batch.strategy[i]), int(batch.goal_index[i])
        source, before = self.find(goal_index) if strategy != "original" else (episode, 0)
        new_goal = [source.new_goal(strategy, before + 1)] if strategy != "original" else None
        rewards, terminates = self.window(episode, t, new_goal)
        steps = len(rewards)
        here, there = episode.states[t], episode.states[t + steps]
        seen, next_seen = row(batch.observations, i), row(batch.next_observations, i)
        goal = seen.pop("desired_goal")
        next_goal = next_seen.pop("desired_goal")
        assert seen == {key: value for key, value in here.items() if key != "desired_goal"}
        assert next_seen == {key: value for key, value in there.items() if key != "desired_goal"}
        assert row(batch.actions, i) == episode.actions[t]
        assert batch.episode[i] == episode.first
        returned = np.float32(sum(self.gamma**k * reward for k, reward in enumerate(rewards)))
        assert batch.rewards[i] == (returned if steps == 1 else pytest.approx(returned, rel=1e-6, abs=1e-6))
        assert batch.terminations[i] == terminates
        assert batch.truncations[i] == (t + steps == len(episode) and episode.truncated)
        assert batch.discounts[i] == (0 if terminates else np.float32(self.gamma**steps))
        assert batch.relabeled[i] == (strategy != "original")
        if strategy == "original":
            assert (goal, next_goal) == (here["desired_goal"], there["desired_goal"])
            assert goal_index == -1
            return
        assert any(source is each and before + 1 == s for each, s in self.sources(strategy, episode, t))
        assert [goal] == [next_goal] == new_goal


class PriorityReference:
    """Expected priorities of a buffer, as a dict from serial numbers to priorities.

    Args:
        buffer_size: Maximum number of transitions.
        priority: Options of prioritized sampling.
    """

    def __init__(self, buffer_size: int, priority: Priority) -> None:
        self.buffer_size, self.priority = buffer_size, priority
        self.episodes: list[tuple[int, int]] = []  # (first serial number, length)
        self.end = 0
        self.largest = 1.0
        self.priorities: dict[int, float] = {}

    def add(self, length: int) -> None:
        """Add an episode, whose transitions get the largest priority so far."""
        self.episodes.append((self.end, length))
        self.priorities |= dict.fromkeys(range(self.end, self.end + length), self.largest)
        self.end += length
        self.shrink(self.buffer_size)

    def shrink(self, buffer_size: int) -> None:
        """Change the size and evict the oldest episodes as far as needed."""
        self.buffer_size = buffer_size
        while sum(length for _, length in self.episodes) > buffer_size:
            self.evict_oldest()

    def evict_oldest(self) -> None:
        """Remove the priorities of the oldest episode."""
        first, length = self.episodes.pop(0)
        for number in range(first, first + length):
            del self.priorities[number]

    def update(self, index: Any, priorities: Any) -> int:
        """Set each priority to its largest new value; return the number of indices that are not stored."""
        best: dict[int, float] = {}
        for number, priority in zip(index, priorities, strict=True):
            if number in self.priorities:
                best[number] = max(priority, best.get(number, 0))
        self.priorities |= best
        self.largest = max([self.largest, *best.values()])
        return sum(number not in self.priorities for number in index)

    def clear(self) -> None:
        """Remove all priorities, and reset the largest to 1; serial numbers continue."""
        while self.episodes:
            self.evict_oldest()
        self.largest = 1.0

    def odds(self) -> dict[int, float]:
        """Return the scaled priority of each transition."""
        eps, alpha = self.priority.eps, self.priority.alpha
        return {number: (priority + eps) ** alpha for number, priority in self.priorities.items()}

    def explain(self, batch: Any) -> None:
        """Assert that the rows of a batch are stored and have the expected weights."""
        odds = self.odds()
        assert set(batch.index.tolist()) <= odds.keys()
        share = np.array([odds[number] for number in batch.index.tolist()]) / sum(odds.values())
        weights = (len(odds) * share) ** -self.priority.beta
        np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-6)
