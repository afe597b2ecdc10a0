"""BufferDriver adds numbered episodes to a buffer and to its oracle, and samples rows that it compares."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES, ReplayAdapter
from her_wrappers.conformance.env import ConformanceEnv, EndOfEpisode, Transition
from her_wrappers.conformance.oracle import Oracle, StoredEpisode
from her_wrappers.conformance.rows import Batches, Rows

OPTIONAL_KEYS = ("truncated", "discount", "index", "weight")

N_SAMPLED_GOAL = 4
"""Number of relabeled transitions per original transition."""

HORIZON = 12
"""Maximum number of steps of an episode, except in scenarios of long episodes."""


class ScenarioError(ValueError):
    """A scenario failed; ``code`` is the code of the rule that reports this failure, HB001 to HB004."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def first_strategy(adapter: type[ReplayAdapter]) -> str:
    """Return the strategy that most scenarios use: the first of `STRATEGIES` that the adapter offers."""
    return next(name for name in STRATEGIES if name in adapter.offers)


class BufferDriver:
    """A new buffer and its oracle, with methods that add episodes to both and sample rows.

    ``options`` are passed to the adapter. If the adapter does not offer ``strategy``, the result of
    `first_strategy` is used instead.
    """

    def __init__(
        self,
        adapter: type[ReplayAdapter],
        *,
        seed: int = 0,
        seed_offset: int = 0,
        strategy: str = "",
        env: ConformanceEnv | None = None,
        **options: Any,
    ) -> None:
        self.adapter, self.seed = adapter, seed + seed_offset
        self.strategy = strategy if strategy in adapter.offers else first_strategy(adapter)
        self.env = env or ConformanceEnv()
        self.env.sparse = adapter.termination == "success"
        self.rng = np.random.default_rng(self.seed)
        self.options: dict[str, Any] = {"buffer_size": 4000, "n_sampled_goal": N_SAMPLED_GOAL, "num_envs": 1}
        self.options |= {"max_episode_steps": HORIZON, "strategy": self.strategy, **options}
        self.buffer = adapter(self.env, seed=self.seed, **self.options)
        self.kept: list[StoredEpisode] = []  # demonstrations, which are never evicted
        self.oracle = Oracle(
            self.env.reward_of_step,
            self.env.reaches,
            buffer_size=self.options["buffer_size"],
            n_steps=self.options.get("n_steps", 1),
            gamma=self.options.get("gamma", 1.0),
            termination=adapter.termination,
            samples_open=adapter.samples_open_episodes,
            evicts=adapter.evicts,
        )

    def add(self, arrays: Transition, numbers: Transition, env_index: int = 0) -> None:
        """Add a step to the buffer and to the oracle."""
        self.buffer.add(*arrays, env_index=env_index)
        episode = self.oracle.add(*numbers, env_index)
        if len(episode) == 1:
            self.env.episodes.append(episode)

    def add_episodes(
        self,
        lengths: Sequence[int],
        ends: Sequence[EndOfEpisode] = ("time limit",),
        *,
        steps: int | None = None,
    ) -> BufferDriver:
        """Add one episode for each of ``lengths``, or only the first ``steps`` steps of each; return self.

        The end of episode i, if all its steps are added, is ``ends[i % len(ends)]``, such as ``"success"``.
        """
        for length, end in zip(lengths, itertools.cycle(ends), strict=False):
            for step in itertools.islice(self.env.transitions(length, end), steps):
                self.add(*step)
        return self

    def end_episode(self, env_index: int = 0) -> None:
        """End the open episode of an environment, or of all environments if the adapter documents this."""
        self.buffer.end_episode(env_index)
        for index in sorted(self.oracle.open) if self.adapter.ends_all_episodes else [env_index]:
            self.oracle.end_episode(index)

    def reload(self, other: ReplayAdapter | None = None) -> None:
        """Save the buffer, load it into ``other`` or into a new buffer, and continue with this one."""
        other = other or self.adapter(self.env, seed=self.seed + 1, **self.options)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "buffer")
            self.buffer.save(path)
            other.load(path)
        self.buffer = other
        for episode in self.oracle.open.values():
            episode.saved_at = len(episode)

    def batches(self, count: int, rows: int = 128) -> list[dict[str, np.ndarray]]:
        """Sample ``count`` batches of ``rows`` rows each, and return their arrays."""
        return [self.read(self.buffer.sample(rows), rows) for _ in range(count)]

    def read(self, batch: Any, rows: int) -> dict[str, np.ndarray]:
        """Return copies of a batch's arrays; raise ScenarioError unless they are valid for ``rows`` rows."""
        spaces = self.env.observation_space.items()
        needed = {prefix + key: space.shape or () for prefix in ("", "next_") for key, space in spaces}
        needed |= {"action": (1,), "reward": ()}
        if self.adapter.termination is not None:
            needed["terminated"] = ()
        if "prioritized" in self.options:
            needed["index"] = ()
        if not isinstance(batch, dict):
            raise ScenarioError("HB002", f"sample() returned {type(batch).__name__}, not a dict")
        missing = [key for key in needed if key not in batch]
        if missing:
            keys = ", ".join(map(repr, missing))
            raise ScenarioError("HB002", f"sample() returned a dict without the keys {keys}")
        arrays = {}
        for key in dict.fromkeys((*needed, *(key for key in OPTIONAL_KEYS if key in batch))):
            shape = (rows, *needed.get(key, ()))
            try:
                array = np.array(batch[key])
            except Exception as error:  # anything that the conversion of a user's object raises
                message = f"{key!r} cannot be converted from {type(batch[key]).__name__} to an array: {error}"
                raise ScenarioError("HB003", message) from error
            if array.shape != shape:
                raise ScenarioError("HB003", f"{key!r} has shape {array.shape} instead of {shape}")
            if array.dtype.kind not in "fiub":
                raise ScenarioError("HB003", f"{key!r} has dtype {array.dtype}, which is not numeric")
            arrays[key] = array
        return arrays

    def rows(self, count: int, rows: int = 128) -> Rows:
        """Sample ``count`` batches of ``rows`` rows each, and compare all rows with the oracle."""
        return self.compare(self.batches(count, rows))

    def compare(self, batches: Batches) -> Rows:
        """Compare the rows of several batches with the present content of the oracle."""
        return Rows(
            batches,
            env=self.env,
            oracle=self.oracle,
            kept=self.kept,
            strategy=self.strategy,
            n_sampled_goal=self.options["n_sampled_goal"],
        )
