"""Counting episodes: the values of each state are the numbers of its episode and step.

`counting_episode` has one simple space, in which results are arithmetic. `World` has any space.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers import Batch, Episode, HindsightReplayBuffer
from her_wrappers.data.trees import map_tree

COUNTS = spaces.Box(-np.inf, np.inf, (2,), np.float64)
SPACE = spaces.Dict({"observation": COUNTS, "achieved_goal": COUNTS, "desired_goal": COUNTS})
ACTIONS = spaces.Box(-np.inf, np.inf, (1,), np.float64)
DESIRED = -1.0
"""Step number of the desired goals. No state has it, so only relabeled steps achieve their goal."""


def compute_reward(achieved, desired, info):
    """Return 0 where the achieved goal equals the desired goal, else -1."""
    return -1.0 + (achieved == desired).all(-1)  # in this order, the sum is defined for tensors of bools


def compute_terminated(achieved, desired, info):
    """Return whether the achieved goal equals the desired goal."""
    return (achieved == desired).all(-1)


FUNCTIONS = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}

# --- any space ------------------------------------------------------------------------------------

IMAGE = spaces.Box(0, 255, (2, 2, 1), np.uint8)
VECTOR = spaces.Box(-600, 600, (3,), np.float32)
LEAVES = (
    VECTOR,
    COUNTS,
    IMAGE,
    spaces.Box(-600, 600, (), np.float16),
    spaces.Box(-600, 600, (1, 2), np.float64),
    spaces.Box(-9, 9, (2,), np.int16),
    spaces.Discrete(5, start=-1),
    spaces.MultiBinary((2, 3)),
    spaces.MultiDiscrete([3, 2]),
    spaces.Box(-600, 600, (0,), np.float32),
)
TREES = (
    spaces.Dict(place=VECTOR, open=spaces.Discrete(2)),
    spaces.Tuple([spaces.Dict(far=COUNTS, seen=IMAGE), spaces.Discrete(3)]),
)


def numbered(space: spaces.Space, number: int, t: np.ndarray, salt: int = 0) -> Any:
    """Return (T,) elements of a space that say the number of the episode and the steps ``t``."""
    if isinstance(space, spaces.Dict):
        return {key: numbered(part, number, t, i + 1) for i, (key, part) in enumerate(space.items())}
    if isinstance(space, spaces.Tuple):
        return tuple(numbered(part, number, t, i + 1) for i, part in enumerate(space))
    counts = (37 * number + t + 11 * salt)[:, None] + np.arange(np.prod(space.shape, dtype=int))
    counts = counts.reshape(len(t), *space.shape)
    if space.dtype.kind == "f":  # a third has other digits in each dtype
        return (counts % 509 + 1 / 3).astype(space.dtype)
    if isinstance(space, spaces.Box):
        return (counts % 19 - 9 * (space.dtype.kind == "i")).astype(space.dtype)
    most = 2 if isinstance(space, spaces.MultiBinary) else getattr(space, "nvec", getattr(space, "n", None))
    return (getattr(space, "start", 0) + counts % most).astype(space.dtype)


def leaves_of(tree: Any) -> list[Any]:
    """Return the arrays or tensors of a tree."""
    leaves: list[Any] = []
    map_tree(leaves.append, tree)
    return leaves


def equal_goals(achieved: Any, desired: Any) -> Any:
    """Return whether goals are equal, (B,) bool; trees of arrays or of tensors."""
    pairs = zip(leaves_of(achieved), leaves_of(desired), strict=True)
    return functools.reduce(operator.and_, [flat(a == d).all(-1) for a, d in pairs])


def flat(leaf: Any) -> Any:
    """Return (B, ...) values as (B, M)."""
    return leaf.reshape(len(leaf), math.prod(leaf.shape[1:]))


def first_number(tree: Any) -> Any:
    """Return the first number of each row as float64, modulo 8 and rounded down; 0 in empty rows."""
    rows = flat(leaves_of(tree)[0])
    rows = rows.double() if hasattr(rows, "double") else rows.astype(np.float64)
    return rows[:, 0] // 1 % 8 if rows.shape[1] else rows.sum(-1)


class World:
    """Numbered episodes in any space, with functions of goals, infos, states and actions.

    Rewards are -1, or 0 where the goal is achieved, minus a cost: from the infos (``"infos"``), or from state
    and action (``"batch"``, for `reward_fn`). Goals have few values and are often achieved. Every second
    episode has other goals from its middle on. Where the spaces are equal, the observation is the achieved
    goal in most episodes. Rewards are multiples of 1/8, exact in every dtype.

    Args:
        observation: Space of the observations.
        goal: Space of the goals.
        action: Space of the actions.
        cost: Kind of the cost, or None.
    """

    def __init__(self, observation: Any, goal: Any, action: Any, cost: str | None = None) -> None:
        self.space = spaces.Dict(observation=observation, achieved_goal=goal, desired_goal=goal)
        self.action_space, self.cost = action, cost
        self.info_keys = ["cost", "force"] if cost == "infos" else []

    def episode(self, number: int, length: int) -> Episode:
        """Return episode ``number``; one of three terminates."""
        t = np.arange(length + 1)
        goal = self.space["achieved_goal"]
        turn = length // 2 if number % 2 else length + 1
        wanted = np.where(t < turn, number % (length + 1), (number + 1) % (length + 1))
        observations = {
            "observation": numbered(self.space["observation"], number, t),
            "achieved_goal": numbered(goal, number % 2, t // 2),
            "desired_goal": numbered(goal, number % 2, wanted // 2),
        }
        if self.space["observation"] == goal and number % 5 < 3:
            observations["observation"] = map_tree(np.copy, observations["achieved_goal"])
        return Episode(
            observations,
            numbered(self.action_space, number, t[:-1]),
            (number + t[:-1]) % 9 / 8,
            terminated=number % 3 == 0,
            truncated=number % 3 > 0,
            infos=self.infos(number, t[:-1]) if self.info_keys else {},
        )

    def infos(self, number: int, t: np.ndarray) -> dict[str, np.ndarray]:
        """Return infos, whose first costs are integers or bools and later ones are floats."""
        cost = (number + 3 * t) % 4
        cost = cost % 2 if number < 2 else cost if number < 4 else cost / 4
        return {"cost": cost, "force": np.stack([t / 8, -t / 8], axis=1).astype(np.float32)}

    def options(self) -> dict[str, Any]:
        """Return the arguments of a buffer: its functions, and the keys of the infos."""
        rewards = {"reward_fn" if self.cost == "batch" else "compute_reward": self.reward}
        options = rewards | {"compute_terminated": self.terminated}
        return options | ({"info_keys": self.info_keys} if self.info_keys else {})

    def costs(self, infos: Any) -> Any:
        """Return the costs of infos, (B,)."""
        if not self.info_keys:
            return 0.0
        cost, force = (np.array([info[key] for info in infos]) for key in self.info_keys)
        return 1.0 * cost - force[:, 1]

    def reward(self, batch: Any, desired: Any = None, infos: Any = None) -> Any:
        """Return the rewards of a `Batch`, or of achieved goals, desired goals and infos, (B,)."""
        if self.cost != "batch":
            return -1.0 + equal_goals(batch, desired) - self.costs(infos)
        reached = equal_goals(batch.next_observations["achieved_goal"], batch.observations["desired_goal"])
        seen = first_number(batch.observations["observation"])
        return -1.0 + reached - first_number(batch.actions) - seen / 8

    def terminated(self, achieved: Any, desired: Any, infos: Any) -> Any:
        """Return whether goals are achieved at costs below 3/4, (B,) bool."""
        return equal_goals(achieved, desired) & (self.costs(infos) < 0.75)

    # --- the same functions for one step, of plain Python values ---

    def reward_of_step(self, here: Any, action: Any, achieved: Any, goal: Any, info: Any) -> float:
        """Return the reward of one step under a goal."""
        reward = (achieved == goal) - 1.0
        if self.cost == "batch":
            return reward - _first(action) - _first(here) / 8
        return reward - self.cost_of_step(info)

    def terminates(self, achieved: Any, goal: Any, info: Any) -> bool:
        """Return whether one step terminates under a goal."""
        return achieved == goal and self.cost_of_step(info) < 0.75

    def cost_of_step(self, info: Any) -> float:
        """Return the cost of one step by its info."""
        return info["cost"] - info["force"][1] if self.info_keys else 0.0


def _first(value: Any) -> float:
    """Return the first number of a nested value as `first_number` does."""
    while isinstance(value, dict | list):
        if not value:
            return 0.0
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value // 1 % 8


# --- one simple space ------------------------------------------------------------------------------

COUNTING = World(COUNTS, COUNTS, ACTIONS)
"""The spaces and functions of counting episodes, for the oracle."""


def counting_episode(number: int, length: int, *, terminated: bool = False, **changes: Any) -> Episode:
    """Return episode ``number``: state t is (number, t), action t is number + t / 1000."""
    counts = np.stack([np.full(length + 1, float(number)), np.arange(length + 1.0)], axis=1)
    parts = {
        "observations": {
            "observation": counts,
            "achieved_goal": counts.copy(),
            "desired_goal": np.tile([number, DESIRED], (length + 1, 1)),
        },
        "actions": (number + np.arange(length) / 1000)[:, None],
        "rewards": np.full(length, -1.0),
        "terminated": terminated,
        "truncated": not terminated,
    }
    return Episode(**parts | changes)


def counting_buffer(**options: Any) -> HindsightReplayBuffer:
    """Return an empty buffer for counting episodes."""
    return HindsightReplayBuffer(SPACE, ACTIONS, **FUNCTIONS | {"seed": 0} | options)


def assert_counting_rows(batch: Batch, length_of: Callable[[np.ndarray], np.ndarray]) -> dict[int, int]:
    """Assert that rows are steps of counting episodes, with a goal of their episode or of another one.

    Use the oracle where the stored episodes are known. ``length_of`` maps (B,) numbers of episodes to their
    lengths. Return the step number of the first step of each episode.
    """
    batch = batch.to_numpy()
    number, t = batch.observations["observation"].T.astype(int)
    np.testing.assert_array_equal(batch.next_observations["observation"].T, [number, t + 1])
    np.testing.assert_array_equal(batch.actions[:, 0], number + t / 1000)
    assert (t < length_of(number)).all()
    source, s = batch.observations["desired_goal"].T.astype(int)
    np.testing.assert_array_equal(batch.rewards, ((source == number) & (s == t + 1)) - 1.0)
    new = batch.relabeled
    assert ((s >= 1) & (s <= length_of(source)))[new].all()
    assert (s < 0)[~new].all()
    assert ((source == number) & (s > t))[batch.strategy == "future"].all()
    first_steps: dict[int, int] = {}
    rows = zip(number, batch.index - t, strict=True)
    goals = zip(source[new], (batch.goal_index - s + 1)[new], strict=True)
    for episode, first in (*rows, *goals):
        assert first_steps.setdefault(int(episode), int(first)) == first
    assert len(set(first_steps.values())) == len(first_steps)
    return first_steps
