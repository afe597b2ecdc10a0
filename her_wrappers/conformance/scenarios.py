"""Scenarios: what is done to fresh buffers, and the batches that they return."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES, ReplayAdapter
from her_wrappers.conformance.rows import BatchError, DecodedRows, read_batch
from her_wrappers.conformance.world import End, FedEpisode, Kind, Transition, World

K = 4
"""Relabeled transitions per original one."""

HORIZON = 12
"""Maximum number of steps of an episode."""

N_STEPS, GAMMA = 3, 0.5

AdapterClass: TypeAlias = type[ReplayAdapter]
Batches: TypeAlias = Sequence[dict[str, np.ndarray]]


@dataclass
class Bench:
    """One buffer, the world that feeds it, and the lengths of its random episodes.

    Args:
        adapter: The adapter class.
        seed: Seed of the buffer and of the episodes.
        strategy: Goal selection strategy; by default the first one offered.
        buffer_size: Number of transitions that fit.
        k: Relabeled transitions per original one.
        num_envs: Number of environments.
        world: The world, by default one of vectors.
        options: Further options of the adapter.
    """

    adapter: AdapterClass
    seed: int
    strategy: str = ""
    buffer_size: int = 4000
    k: int = K
    num_envs: int = 1
    world: World = field(default_factory=World)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the buffer."""
        self.strategy = self.strategy or first_strategy(self.adapter)
        self.world.sparse = self.adapter.termination == "success"
        self.rng = np.random.default_rng(self.seed)
        self.buffer = self.adapter(
            self.world,
            buffer_size=self.buffer_size,
            strategy=self.strategy,
            n_sampled_goal=self.k,
            max_episode_steps=HORIZON,
            num_envs=self.num_envs,
            seed=self.seed,
            **self.options,
        )

    def feed(
        self,
        length: int,
        *,
        end: End = "time limit",
        changing: bool = False,
        steps: int | None = None,
        env_index: int = 0,
    ) -> FedEpisode:
        """Add an episode, or only its first ``steps``."""
        episode = self.world.begin(end=end, changing=changing)
        for transition in self.world.transitions(episode, length):
            self.buffer.add(*transition, env_index=env_index)
            if episode.length == steps:
                break
        return episode

    def feed_all(self, lengths: Sequence[int], ends: Sequence[End] = ("time limit",)) -> None:
        """Add episodes of these lengths, with ``ends`` in turn."""
        for i, length in enumerate(lengths):
            self.feed(length, end=ends[i % len(ends)])

    def batches(self, count: int, rows: int = 128) -> list[dict[str, np.ndarray]]:
        """Sample batches."""
        terminations = self.adapter.termination is not None
        return [
            read_batch(self.buffer.sample(rows), self.world, rows, terminations=terminations)
            for _ in range(count)
        ]

    def rows(self, count: int, rows: int = 128) -> DecodedRows:
        """Sample batches and decode them."""
        return self.decode(self.batches(count, rows))

    def decode(self, batches: Batches) -> DecodedRows:
        """Decode batches."""
        return DecodedRows(self.world, self.strategy, self.adapter.termination, batches)


def first_strategy(adapter: AdapterClass) -> str:
    """Return the strategy that most rules use."""
    return next(name for name in STRATEGIES if name in adapter.offers)


Scenario: TypeAlias = Callable[[AdapterClass, int], Any]
SCENARIOS: dict[str, Scenario] = {}
"""All scenarios by name: functions of adapter and seed. The first one must work for the others to be run."""


def scenario(function: Scenario) -> Scenario:
    """Register a scenario under the name of its function."""
    SCENARIOS[function.__name__.replace("_", " ").strip()] = function
    return function


@dataclass
class Sampled:
    """DecodedRows of 400 equal episodes, with small batches and the number of calls of ``compute_reward``."""

    rows: DecodedRows
    small: dict[int, DecodedRows]
    reward_calls: int
    columns: dict[str, np.ndarray]


@scenario
def equal_episodes(adapter: AdapterClass, seed: int) -> Sampled:
    """400 episodes of 6 steps."""
    bench = Bench(adapter, seed)
    bench.feed_all([6] * 400)
    before = bench.world.reward_calls
    batches = bench.batches(48)
    calls = bench.world.reward_calls - before
    small = {rows: bench.rows(count, rows) for rows, count in ((1, 400), (2, 300), (7, 200))}
    return Sampled(bench.decode(batches), small, calls, batches[0])


def _strategy(name: str) -> Scenario:
    def sample(adapter: AdapterClass, seed: int) -> DecodedRows:
        bench = Bench(adapter, seed, strategy=name)
        bench.feed_all([6] * 100)
        return bench.rows(16)

    return sample


for _name in STRATEGIES:
    SCENARIOS[f"strategy {_name}"] = _strategy(_name)


@scenario
def one_relabeled_per_original(adapter: AdapterClass, seed: int) -> DecodedRows:
    """n_sampled_goal=1."""
    bench = Bench(adapter, seed, k=1)
    bench.feed_all([6] * 60)
    return bench.rows(12)


@scenario
def few_episodes(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Three episodes, many rows of each in one batch."""
    bench = Bench(adapter, seed)
    bench.feed_all([HORIZON] * 3)
    return bench.rows(12)


@scenario
def ends_of_episodes(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Episodes that end by time limit, crash and success."""
    strategy = "episode" if "episode" in adapter.offers else ""
    bench = Bench(adapter, seed, strategy=strategy)
    bench.feed_all([5] * 60, ("time limit", "crash", "success"))
    return bench.rows(16)


@scenario
def changing_goals(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Desired goals that change inside episodes."""
    bench = Bench(adapter, seed)
    for _ in range(20):
        bench.feed(8, changing=True)
    return bench.rows(8)


@scenario
def recorded_rewards(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Steps with rewards that compute_reward does not return."""
    bench = Bench(adapter, seed, world=World(bonus=-0.25))
    bench.feed_all([6] * 20)
    return bench.rows(8)


@scenario
def infos(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Rewards that need infos."""
    bench = Bench(adapter, seed, world=World(costs=True))
    bench.feed_all([6] * 20)
    return bench.rows(8)


def _goals(kind: Kind) -> Scenario:
    def sample(adapter: AdapterClass, seed: int) -> DecodedRows:
        bench = Bench(adapter, seed, world=World(kind))
        bench.feed_all([6] * 20)
        return bench.rows(8)

    return sample


SCENARIOS["image goals"] = _goals("image")
SCENARIOS["discrete goals"] = _goals("discrete")


@scenario
def different_lengths(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Episodes of 1 to 12 steps."""
    bench = Bench(adapter, seed)
    lengths = bench.rng.permutation(np.tile(np.arange(1, HORIZON + 1), 8)).tolist()
    bench.feed_all([HORIZON, *lengths])
    return bench.rows(27)


@dataclass
class Wrapped:
    """DecodedRows sampled while a small buffer overwrites old episodes.

    Attributes:
        rows: All rows.
        newest: The newest complete episode when each batch was sampled.
        capacity: Number of transitions that fit.
    """

    rows: DecodedRows
    newest: list[int]
    capacity: int


@scenario
def full_buffer(adapter: AdapterClass, seed: int) -> Wrapped:
    """A buffer that is overwritten several times, by episodes of varying length."""
    bench = Bench(adapter, seed, buffer_size=40)
    batches, newest = [], []
    for length in bench.rng.integers(1, 10, size=48).tolist():
        episode = bench.feed(length)
        if len(bench.world.episodes) % 2 and len(bench.world.episodes) > 8:
            batches += bench.batches(1, 96)
            newest.append(episode.number)
    return Wrapped(bench.decode(batches), newest, 40)


@scenario
def laps_without_sampling(adapter: AdapterClass, seed: int) -> DecodedRows:
    """A buffer that is overwritten between two batches."""
    bench = Bench(adapter, seed, buffer_size=40)
    bench.feed_all([5] * 8)
    bench.batches(1)
    bench.feed_all([3, 7] * 4)
    return bench.rows(4)


@scenario
def episode_as_long_as_the_buffer(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Episodes of exactly buffer_size steps."""
    bench = Bench(adapter, seed, buffer_size=HORIZON)
    bench.feed_all([HORIZON] * 2)
    return bench.rows(4)


@scenario
def open_episode(adapter: AdapterClass, seed: int) -> DecodedRows:
    """An episode of which only 4 steps were added."""
    bench = Bench(adapter, seed)
    bench.feed_all([6] * 4)
    bench.feed(8, end="open", steps=4)
    return bench.rows(8)


@scenario
def interrupted_episode(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Episodes that end_episode ends after 3 steps."""
    bench = Bench(adapter, seed)
    for _ in range(6):
        bench.feed(8, end="interrupted", steps=3)
        bench.buffer.end_episode(0)
        bench.feed(5)
    return bench.rows(8)


@scenario
def several_environments(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Interleaved steps of three environments, with episodes of different lengths."""
    bench = Bench(adapter, seed, num_envs=3)
    streams = [_endless(bench, ends) for ends in (("time limit",), ("time limit", "crash"), ("time limit",))]
    for _ in range(60):
        for env_index, stream in enumerate(streams):
            bench.buffer.add(*next(stream), env_index)
    return bench.rows(16)


def _endless(bench: Bench, ends: Sequence[End]) -> Iterator[Transition]:
    """Yield steps of one episode after another."""
    while True:
        for end in ends:
            episode = bench.world.begin(end=end)
            yield from bench.world.transitions(episode, int(bench.rng.integers(1, 9)))


@dataclass
class Repeated:
    """Batches of two buffers with the same seed, and of one with another seed."""

    first: Batches
    same: Batches
    other: Batches


@scenario
def seeds(adapter: AdapterClass, seed: int) -> Repeated:
    """Three buffers with the same episodes."""
    batches = []
    for number, buffer_seed in enumerate((seed, seed, seed + 1)):
        bench = Bench(adapter, buffer_seed)
        bench.feed_all([6] * 20)
        np.random.random(number)  # noqa: NPY002 - reproducible whatever the global generator does
        batches.append(bench.batches(2))
    return Repeated(*batches)


@dataclass
class GlobalState:
    """Which global random generators a buffer changes, and which it seeds."""

    changed: list[str]
    seeded: list[str]


@scenario
def global_generators(adapter: AdapterClass, seed: int) -> GlobalState:
    """A buffer is made, filled and sampled after global generators were seeded in two ways."""
    outer = _global_states()
    after, changed = [], set()
    try:
        for global_seed in (1, 2):
            random.seed(global_seed)
            np.random.seed(global_seed)  # noqa: NPY002 - the generator that buffers should not use
            if "torch" in sys.modules:
                sys.modules["torch"].manual_seed(global_seed)
            before = _global_states()
            bench = Bench(adapter, seed)
            bench.feed_all([4] * 4)
            bench.batches(2, 32)
            after.append(_global_states())
            changed |= {name for name in before if str(before[name]) != str(after[-1].get(name))}
    finally:
        _restore(outer)
    names = sorted(changed)
    return GlobalState(names, [name for name in names if str(after[0][name]) == str(after[1][name])])


def _global_states() -> dict[str, Any]:
    """Return the states of global generators, torch's only where torch is imported."""
    name, *parts = np.random.get_state()  # noqa: NPY002 - the generator that buffers should not use
    states = {
        "Python's random": random.getstate(),
        "numpy.random": (name, np.asarray(parts[0]).tolist(), *parts[1:]),
    }
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().tolist()
    return states


def _restore(states: dict[str, Any]) -> None:
    random.setstate(states["Python's random"])
    np.random.set_state(states["numpy.random"])  # noqa: NPY002 - the generator that buffers should not use
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(torch.tensor(states["torch"], dtype=torch.uint8))


@dataclass
class Memory:
    """What shares memory, or was changed.

    Attributes:
        arguments_changed: Keys of the caller's observations that `add` changed.
        stored_changed: Rows after the caller changed the arrays that were added.
        batch_changed: Keys of a batch that changed when the next one was sampled.
        storage_changed: Rows after the caller changed a batch.
    """

    arguments_changed: list[str]
    stored_changed: DecodedRows
    batch_changed: list[str]
    storage_changed: DecodedRows


@scenario
def memory(adapter: AdapterClass, seed: int) -> Memory:
    """Arrays are changed after they were added, and after they were sampled."""
    bench = Bench(adapter, seed)
    changed: set[str] = set()
    for _ in range(20):
        episode = bench.world.begin()
        for transition in bench.world.transitions(episode, 6):
            before = copy.deepcopy(transition)
            bench.buffer.add(*transition)
            for name, new, old in (
                ("obs", transition.obs, before.obs),
                ("next_obs", transition.next_obs, before.next_obs),
            ):
                changed |= {f"{name}[{key!r}]" for key in old if not _same(new[key], old[key])}
                for array in new.values():
                    array[...] = 77
            changed |= set() if _same(transition.action, before.action) else {"action"}
            transition.action[...] = 77
    first = bench.buffer.sample(128)
    copies = read_batch(first, bench.world, 128, terminations=adapter.termination is not None)
    stored = bench.rows(4)
    batch_changed = [key for key in copies if not _same(np.asarray(first[key]), copies[key])]
    for key in copies:
        with contextlib.suppress(ValueError, TypeError):  # read-only arrays cannot be changed
            first[key][...] = 55
    for _ in range(3):
        batch = bench.buffer.sample(128)
        for key in copies:
            with contextlib.suppress(ValueError, TypeError):
                batch[key][...] = 55
    return Memory(sorted(changed), stored, batch_changed, bench.rows(4))


def _same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b))


@dataclass
class Saved:
    """DecodedRows of a loaded buffer; and batches of the saved and the loaded one."""

    rows: DecodedRows
    before: Batches
    after: Batches


@scenario
def saved_and_loaded(adapter: AdapterClass, seed: int) -> Saved:
    """A buffer is saved and loaded into another one."""
    bench = Bench(adapter, seed)
    bench.feed_all([5, 6, 7] * 6)
    bench.batches(1)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "buffer")
        bench.buffer.save(path)
        other = Bench(adapter, seed + 1, world=bench.world)
        other.buffer.load(path)
    before, after = bench.batches(2), other.batches(2)
    return Saved(other.decode(after + other.batches(6)), before, after)


@scenario
def n_steps(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Returns of 3 steps."""
    bench = Bench(adapter, seed, options={"n_steps": N_STEPS, "gamma": GAMMA})
    bench.feed_all([7] * 40, ("time limit", "crash"))
    return bench.rows(10)


@dataclass
class Prioritized:
    """DecodedRows before and after one transition in four got 20 times the priority of the others."""

    before: DecodedRows
    after: DecodedRows


@scenario
def priorities(adapter: AdapterClass, seed: int) -> Prioritized:
    """Priorities of all transitions are set by their index."""
    bench = Bench(adapter, seed, options={"prioritized": True})
    bench.feed_all([4] * 40)
    before = bench.rows(12)
    if "index" not in before.columns:
        raise BatchError("HB002", "the key index, since priorities are offered", "a dict without it")
    index = before.columns["index"]
    bench.buffer.update_priorities(index, np.where(before.step == 0, 20.0, 1.0))
    return Prioritized(before, bench.rows(12))
