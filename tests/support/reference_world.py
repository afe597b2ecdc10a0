"""A buffer and its reference in plain Python, on which the same methods are called."""

from __future__ import annotations

import copy
import functools
import operator
import tempfile
from pathlib import Path

import numpy as np
from gymnasium import spaces

from her_wrappers import Episode, HindsightReplayBuffer, Mixture
from her_wrappers.trees import leaf_arrays
from tests.support.replay_reference import PriorityReference, Reference

PICTURE = spaces.Box(0, 255, (2, 2), np.uint8)
SPACES = {
    "discrete": (spaces.Discrete(3, start=-1), spaces.Discrete(3), spaces.Discrete(4)),
    "pictures": (PICTURE, PICTURE, spaces.Box(-1, 1, (2,), np.float32)),
    "nested": (
        spaces.Dict(
            camera=PICTURE, joints=spaces.Tuple([spaces.Box(-1, 1, (), np.float16), spaces.Discrete(2)])
        ),
        spaces.MultiBinary(2),
        spaces.Dict(turn=spaces.Discrete(3), push=spaces.Tuple([spaces.Box(-1, 1, (1,), np.float64)])),
    ),
    "nested goals": (
        spaces.Box(-1, 1, (3,), np.float32),
        spaces.Dict(place=spaces.MultiDiscrete([2, 2]), open=spaces.Discrete(2)),
        spaces.MultiDiscrete([3, 2]),
    ),
}
"""Spaces of observations, goals and actions. Goals have few values, so that many goals are equal."""


def random_rows(space, rows, rng):
    """Return random elements of a space as a tree of arrays; integers have few values."""
    if isinstance(space, spaces.Dict):
        return {key: random_rows(part, rows, rng) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(random_rows(part, rows, rng) for part in space)
    if space.dtype.kind == "f":
        return rng.uniform(-1, 1, (rows, *space.shape)).astype(space.dtype)
    return (rng.integers(2, size=(rows, *space.shape)) + getattr(space, "start", 0)).astype(space.dtype)


def take(tree, rows):
    if isinstance(tree, dict):
        return {key: take(part, rows) for key, part in tree.items()}
    return tuple(take(part, rows) for part in tree) if isinstance(tree, tuple) else tree[rows]


def batch_same(achieved, desired):
    """Return whether goals are equal, (B,) bool."""
    pairs = zip(leaf_arrays(achieved), leaf_arrays(desired), strict=True)
    return functools.reduce(operator.and_, [(a == d).reshape(len(a), -1).all(-1) for a, d in pairs])


def cost_of(info):
    return info.get("cost", 0)


class World:
    """A buffer and its reference, on which the same methods are called.

    Args:
        name: Name of the spaces.
        termination: Termination mode, None, or ``"function"`` for a termination function.
        with_infos: Whether rewards depend on an info, except with the termination mode ``"success"``.
        options: Other arguments of the buffer.
        seed: Seed of episodes and batch size.
    """

    def __init__(self, name, termination, with_infos, options, seed):
        self.rng = np.random.default_rng(seed)
        observation, goal, self.action_space = SPACES[name]
        self.space = spaces.Dict(observation=observation, achieved_goal=goal, desired_goal=goal)
        self.with_infos = with_infos and termination != "success"
        self.functions = {
            "compute_reward": self.batch_reward,
            "compute_terminated": lambda achieved, desired, info: batch_same(achieved, desired),
        }
        self.again = {}
        if termination == "function":
            termination = self.functions["compute_terminated"]
            self.again = {"termination": termination}
        self.form = str(self.rng.choice(["list", "columns"]))
        keys = {"info_keys": ["cost"], "info_format": self.form} if self.with_infos else {}
        self.buffer = HindsightReplayBuffer(
            self.space, self.action_space, termination=termination, **self.functions, **options, **keys
        )
        mode = termination if isinstance(termination, str) else "recompute"
        reward = lambda achieved, desired, info: (achieved == desired) - 1.0 - cost_of(info)  # noqa: E731
        terminated = lambda achieved, desired, info: achieved == desired  # noqa: E731
        self.reference = Reference(
            options["buffer_size"],
            reward,
            terminated,
            mode,
            n_steps=options["n_steps"],
            gamma=options["gamma"],
        )
        priority = options["prioritized"]
        self.priorities = PriorityReference(options["buffer_size"], priority) if priority else None
        self.batch_size = int(self.rng.integers(1, 12))
        self.steps_to_add = []
        self.open_episode = None
        self.rows = 0

    def batch_reward(self, achieved, desired, infos):
        return -1.0 + batch_same(achieved, desired) - (1.0 * self.costs(infos) if self.with_infos else 0)

    def costs(self, infos):
        return infos["cost"] if self.form == "columns" else np.array([info["cost"] for info in infos])

    def episode(self, length):
        """Return an episode whose goals change sometimes and whose rewards are random."""
        observations = random_rows(self.space, length + 1, self.rng)
        kept = np.maximum.accumulate(np.arange(length + 1) * (self.rng.integers(4, size=length + 1) == 0))
        observations["desired_goal"] = take(observations["desired_goal"], kept)
        if self.space["observation"] == PICTURE and self.rng.integers(4):
            observations["observation"] = observations["achieved_goal"].copy()
        terminated = bool(self.rng.integers(2))
        return Episode(
            observations,
            random_rows(self.action_space, length, self.rng),
            self.rng.integers(9, size=length) / 8,
            terminated=terminated,
            truncated=not terminated,
            infos={"cost": self.rng.integers(4, size=length) / 4} if self.with_infos else {},
        )

    def lengths(self, count):
        return self.rng.integers(1, self.reference.buffer_size + 1, size=count) // self.rng.integers(1, 9) + 1

    def fitting(self, length):
        return int(min(length, self.reference.buffer_size))

    def add(self, count):
        for length in self.lengths(count % 3 + 1):
            episode = self.episode(self.fitting(length))
            self.buffer.add_episode(episode)
            self.note(episode)

    def note(self, episode):
        self.reference.add(episode)
        if self.priorities:
            self.priorities.add(len(episode))

    def add_many(self, count):
        episodes = [self.episode(self.fitting(length)) for length in self.lengths(count % 20 + 1)]
        self.buffer.add_episodes(episodes)
        for episode in episodes:
            self.note(episode)

    def step(self, count):
        """Add transitions one by one; an episode may stay open."""
        for _ in range(count):
            if not self.steps_to_add:
                self.open_episode = self.episode(self.fitting(self.lengths(1)[0]))
                self.steps_to_add = [
                    (*values[:6], {key: column[t] for key, column in self.open_episode.infos.items()})
                    for t, values in enumerate(steps_of(self.open_episode))
                ]
            self.buffer.add(*self.steps_to_add.pop(0))
            if not self.steps_to_add:
                self.note(self.open_episode)

    def sample(self, count):
        if self.buffer.can_sample:
            for _ in range(count % 7 + 1):
                batch = self.buffer.sample(self.batch_size)
                self.reference.explain(batch)
                self.rows += len(batch)
                if self.priorities:
                    self.priorities.explain(batch)
                else:
                    assert batch.weights.tolist() == [1] * self.batch_size

    def update(self, count):
        """Update priorities of stored and evicted transitions; an index can occur several times."""
        if self.priorities and self.reference.next_index:
            index = self.rng.integers(self.reference.next_index, size=count)
            priorities = self.rng.integers(9, size=count) / 4
            left_out = self.priorities.update(index.tolist(), priorities.tolist())
            assert self.buffer.update_priorities(index, priorities) == left_out

    def clear(self, count):
        if count % 3 == 0:
            self.buffer.clear()
            self.reference.clear()
            if self.priorities:
                self.priorities.clear()
            self.steps_to_add = []

    def reload(self, _):
        """Save and load, compare the batches, and continue with the loaded buffer."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "buffer"
            self.buffer.save(path)
            twin = HindsightReplayBuffer.load(path, **self.functions, **self.again)
        if self.buffer.can_sample:
            before, after = (copy.deepcopy(each).sample(self.batch_size) for each in (self.buffer, twin))
            for name in (
                "index",
                "goal_index",
                "relabeled",
                "rewards",
                "terminations",
                "discounts",
                "weights",
                "strategy",
            ):
                np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
        self.buffer = twin

    def resize(self, count):
        """Save, and load into a buffer of another size."""
        longest = max([1, *map(len, self.reference.episodes), len(self.open_episode or [])])
        buffer_size = longest + count
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "buffer"
            self.buffer.save(path)
            self.buffer = HindsightReplayBuffer.load(
                path, **self.functions, **self.again, buffer_size=buffer_size
            )
        self.reference.shrink(buffer_size)
        if self.priorities:
            self.priorities.shrink(buffer_size)

    def check(self):
        self.buffer.verify()
        assert len(self.buffer) == len(self.reference)
        assert self.buffer.num_episodes == len(self.reference.episodes)


def steps_of(episode):
    for t in range(len(episode)):
        last = t == len(episode) - 1
        yield (
            take(episode.observations, t),
            take(episode.actions, t),
            episode.rewards[t],
            take(episode.observations, t + 1),
            episode.terminated and last,
            episode.truncated and last,
        )


ACTIONS = ("add", "add_many", "step", "sample", "sample", "update", "reload", "resize", "clear")
"""Names of the methods of `World` that change or sample the buffer."""

GOAL_OPTIONS = (
    {"goal_selection_strategy": "future"},
    {"goal_selection_strategy": "final", "n_sampled_goal": 1},
    {"goal_selection_strategy": "episode", "her_ratio": 0.9},
    {"goal_selection_strategy": "geometric"},
    {"goal_selection_strategy": "random", "her_ratio": 1.0},
    {"goal_selection_strategy": "desired"},
    {"goal_selection_strategy": Mixture({"future": 0.4, "random": 0.2, "final": 0.2, "original": 0.2})},
    {"goal_selection_strategy": Mixture({"desired": 0.3, "future": 0.3, "random": 0.2, "original": 0.2})},
    {"goal_selection_strategy": Mixture({"geometric": 0.5, "episode": 0.5}), "n_sampled_goal": 9},
    {"n_sampled_goal": 0},
)
"""Options of the buffer that choose the goals."""
