"""BufferDriver adds episodes to a buffer and an oracle, and compares sampled rows with the oracle."""

from __future__ import annotations

import contextlib
import copy
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from her_wrappers.checker.comparing import identical
from her_wrappers.conformance.adapter import STRATEGIES, ReplayAdapter
from her_wrappers.conformance.env import ENDS, ConformanceEnv, Step, Transition
from her_wrappers.conformance.oracle import Oracle, StoredEpisode
from her_wrappers.conformance.rows import Rows

HORIZON = 12  # maximum number of steps of an episode, except in scenarios of long episodes


class ScenarioError(ValueError):
    """A scenario failed; ``code`` is the code of the rule that reports this failure, HB001 to HB004."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BufferDriver:
    """A new buffer and its oracle, with methods that add episodes to both and sample rows.

    ``env`` is a `ConformanceEnv`, or a dict of arguments for a new one; the adapter gets ``options``. If it
    does not offer ``strategy``, or several environments, the first strategy that it offers, or one
    environment is used.
    """

    def __init__(
        self,
        adapter: type[ReplayAdapter],
        *,
        seed: int = 0,
        seed_offset: int = 0,
        strategy: str = "",
        env: ConformanceEnv | dict[str, Any] = {},  # noqa: B006 - is not changed
        **options: Any,
    ) -> None:
        self.adapter, self.seed = adapter, seed + seed_offset
        self.strategy = next(each for each in (strategy, *STRATEGIES) if each in adapter.offers)
        self.env = env if isinstance(env, ConformanceEnv) else ConformanceEnv(**env)
        self.env.sparse = adapter.termination == "success"
        self.rng = np.random.default_rng(self.seed)
        self.options: dict[str, Any] = {"buffer_size": 4000, "n_sampled_goal": 4, "num_envs": 1}
        self.options |= {"max_episode_steps": HORIZON, "strategy": self.strategy, **options}
        if "several environments" not in adapter.offers:
            self.options["num_envs"] = 1
        self.buffer = adapter(self.env, seed=self.seed, **self.options)
        self.changed_arguments, self.changed_batches = set[str](), set[str]()  # names, which are faults
        self._last: tuple[Any, dict[str, np.ndarray]] = {}, {}  # the last batch, and copies of its arrays
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

    def add(self, arrays: Transition, numbers: tuple[StoredEpisode, int], env_index: int = 0) -> None:
        """Add a step to the buffer and to the oracle."""
        self.buffer.add(*arrays, env_index=env_index)
        episode = self.oracle.add(*numbers, env_index)
        if len(episode) == 1:
            self.env.episodes.append(episode)

    def add_episodes(
        self, lengths: Sequence[int], ends: Sequence[str] = ENDS[:1], *, steps: int | None = None
    ) -> BufferDriver:
        """Add one episode for each of ``lengths``, or its first ``steps`` steps; ``ends`` is repeated."""
        for length, end in zip(lengths, itertools.cycle(ends), strict=False):
            self.add_steps(self.env.transitions(length, end), steps)
        return self

    def add_steps(self, steps: Iterator[Step], count: int | None = None) -> None:
        """Add the next ``count`` steps of an episode; by default, all of them."""
        for step in itertools.islice(steps, count):
            self.add(*step)

    def end_episode(self, env_index: int = 0) -> None:
        """End the open episode of an environment or, if the adapter ``ends_all_episodes``, of all of them."""
        self.buffer.end_episode(env_index)
        for index in sorted(self.oracle.open) if self.adapter.ends_all_episodes else [env_index]:
            self.oracle.end_episode(index)

    def reload(self, other: ReplayAdapter | None = None) -> None:
        """If saving is offered, save the buffer, load it into ``other`` or a new buffer, and use that one."""
        if "save" not in self.adapter.offers:
            return
        other = other or self.adapter(self.env, seed=self.seed + 1, **self.options)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "buffer")
            self.buffer.save(path)
            other.load(path)
        self.buffer = other
        for episode in self.oracle.open.values():
            episode.saved_at = len(episode)

    @contextlib.contextmanager
    def watched(self, arguments: Mapping[str, Any]) -> Iterator[None]:
        """Add the names of ``arguments`` that change in the with statement to ``changed_arguments``."""
        before = copy.deepcopy(dict(arguments))
        yield
        self.changed_arguments |= {key for key in before if not identical(arguments[key], before[key])}

    def batches(self, count: int, rows: int = 128) -> list[dict[str, np.ndarray]]:
        """Sample ``count`` batches of ``rows`` rows each, and return copies of their arrays."""
        return [self.read(self.buffer.sample(rows), rows) for _ in range(count)]

    def read(self, batch: Any, rows: int) -> dict[str, np.ndarray]:
        """Return copies of a batch's arrays; raise ScenarioError if a key, a shape or a dtype is wrong."""
        spaces = self.env.observation_space.items()
        needed = {prefix + key: space.shape or () for prefix in ("", "next_") for key, space in spaces}
        needed |= {"action": (1,), "reward": ()}
        if self.adapter.termination is not None:
            needed["terminated"] = ()
        if "prioritized" in self.options:
            needed["index"] = ()
        if not isinstance(batch, dict):
            raise ScenarioError("HB002", f"sample() returned {type(batch).__name__}, not a dict")
        if missing := [key for key in needed if key not in batch]:
            raise ScenarioError("HB002", f"sample() returned a dict without the keys {', '.join(missing)}")
        optional = {key: () for key in ("truncated", "discount", "index", "weight") if key in batch}
        arrays = {}
        for key, shape in (needed | optional).items():
            arrays[key] = array = np.array(batch[key])
            if array.shape != (rows, *shape):
                raise ScenarioError("HB003", f"{key!r} has shape {array.shape}, not {(rows, *shape)}")
            if array.dtype.kind not in "fiub":
                raise ScenarioError("HB003", f"{key!r} has dtype {array.dtype}, which is not numeric")
        earlier, copies = self._last
        self.changed_batches |= {key for key in copies if not identical(earlier[key], copies[key])}
        self._last = batch, arrays
        return arrays

    def rows(self, count: int, rows: int = 128) -> Rows:
        """Sample ``count`` batches of ``rows`` rows each, and compare all rows with the oracle."""
        return Rows(self.batches(count, rows), self)
