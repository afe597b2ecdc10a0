"""Scenarios: functions that fill new buffers, sample from them, and return the values that rules judge.

A scenario gets a function that makes a `BufferDriver` with a new buffer. `SCENARIOS` has all scenarios in the
order in which a check runs them.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from her_wrappers.checker.global_generators import get_global_states, seeded_generators
from her_wrappers.conformance.adapter import STRATEGIES, ReplayAdapter
from her_wrappers.conformance.env import ConformanceEnv, EndOfEpisode, Transition
from her_wrappers.conformance.rows import HORIZON, Batches, BufferDriver, DecodedRows, ScenarioError
from her_wrappers.conformance.uniformity import counts_of
from her_wrappers.replay.options import Demonstrations

ENDS: tuple[EndOfEpisode, ...] = ("time limit", "crash", "success")

USED, LONG_EPISODES = ", used buffer", ", long episodes"
"""Suffixes of the names of variants of a scenario; the rules of the scenario judge its variants too."""

N_STEPS, GAMMA = 3, 0.5
"""Options of the scenario of n-step returns."""

Make: TypeAlias = Callable[..., BufferDriver]
"""Function that makes a driver with a new buffer; its keyword arguments are those of `BufferDriver`."""


def equal_episodes(make: Make) -> DecodedRows:
    """Sample rows from 300 episodes of 6 steps; raise ScenarioError if a row mixes several steps."""
    rows = make().add_episodes([6] * 300).rows(48)
    mixed = np.flatnonzero(~rows.is_added)
    if len(mixed):  # no other rule can judge such rows
        raise ScenarioError(
            "HB005",
            f"{len(mixed)} of {len(rows)} sampled rows match no step that was added: their observation, "
            f"action and next observation do not fit together, such as in {rows.describe(int(mixed[0]))}",
        )
    return rows


def small_batches(make: Make) -> dict[int, DecodedRows]:
    """Sample batches of 1 row and batches of 2 rows, and return their rows by batch size."""
    driver = make().add_episodes([6] * 60)
    return {size: driver.rows(120, size) for size in (1, 2)}


# --- storage --------------------------------------------------------------------------------------


def different_lengths(make: Make) -> DecodedRows:
    """Sample rows from episodes of 1 to 12 steps."""
    driver = make()
    lengths = driver.rng.permutation(np.tile(np.arange(1, HORIZON + 1), 8)).tolist()
    driver.add_episodes([HORIZON, *lengths], ENDS)
    return driver.rows(27)


LONG = (600, 150, 150, 150, 150)
"""Numbers of steps of long episodes; 600 steps exceed the range of a byte."""


def long_episodes(make: Make, strategy: str) -> DecodedRows:
    """Sample rows from episodes of `LONG` steps."""
    return make(max_episode_steps=max(LONG), strategy=strategy).add_episodes(LONG).rows(6, 256)


def used_buffer(make: Make, **options: Any) -> DecodedRows:
    """Sample rows from a buffer that has evicted episodes, and was sampled, saved and loaded before."""
    driver = make(buffer_size=USED_CAPACITY, **options)
    # The goal of the original rows of a window is undefined if goals change.
    driver.env.changing &= "n_steps" not in options
    for part in range(6):
        driver.add_episodes((1 + driver.rng.permutation(HORIZON)).tolist(), ENDS).batches(1)
        if part == 3:
            driver.reload()
    return driver.rows(24)


CAPACITY, USED_CAPACITY, PRIORITIZED_CAPACITY = 40, 120, 200
"""Values of buffer_size of the scenarios in which transitions are overwritten."""


class FullBuffer(NamedTuple):
    """Rows sampled while new episodes replace old episodes in a small buffer."""

    rows: DecodedRows
    newest: list[int]  # number of the newest complete episode when each batch was sampled


def full_buffer(make: Make) -> FullBuffer:
    """Add several times as many steps as the buffer can store; sample rows after some of the episodes."""
    driver = make(buffer_size=CAPACITY, strategy="episode")
    batches, newest = [], []
    ends = itertools.cycle(ENDS)
    for length in driver.rng.integers(1, 10, size=48).tolist():
        newest_episode = len(driver.add_episodes([length], [next(ends)]).env.episodes) - 1
        if newest_episode >= 8 and newest_episode % 2 == 0:
            batches += driver.batches(1, 96)
            newest.append(newest_episode)
    return FullBuffer(DecodedRows(driver, batches), newest)


def overwritten_without_sampling(make: Make) -> DecodedRows:
    """Sample a batch, overwrite all transitions without sampling in between, and then sample rows."""
    driver = make(buffer_size=CAPACITY).add_episodes([5] * 8)
    driver.batches(1)
    driver.add_episodes([3, 7] * 4)
    return driver.rows(4)


def interrupted_episode(make: Make) -> DecodedRows:
    """Sample rows from 12 episodes; in half of them, ``end_episode`` is called after 3 of 8 steps."""
    driver = make()
    for _ in range(6):
        driver.add_episodes([8], steps=3).buffer.end_episode(0)
        driver.add_episodes([5])
    return driver.rows(8)


def interleaved_steps(make: Make) -> DecodedRows:
    """Sample rows from interleaved steps of three environments, with episodes of different lengths."""
    driver = make(num_envs=3)

    def endless(env_index: int, ends: Sequence[EndOfEpisode]) -> Iterator[Transition]:
        for end in itertools.cycle(ends):
            yield from driver.env.transitions(int(driver.rng.integers(1, 9)), end, env_index)

    streams = [endless(i, ends) for i, ends in enumerate((ENDS[:1], ENDS[:2], ENDS))]
    for _ in range(60):
        for env_index, stream in enumerate(streams):
            driver.buffer.add(*next(stream), env_index=env_index)
    return driver.rows(24)


class MemoryChanges(NamedTuple):
    """Results of `shared_memory`, a search for memory that a buffer shares with its caller."""

    arguments_changed: list[str]  # such as action or obs['desired_goal']
    stored_changed: DecodedRows  # sampled after the caller changed the arrays that were added
    batch_changed: list[str]  # keys of a batch whose arrays changed in later calls of add or sample
    storage_changed: DecodedRows  # sampled after the caller changed batches


def shared_memory(make: Make) -> MemoryChanges:
    """Overwrite added arrays and sampled arrays, to find memory that the buffer shares with its caller."""
    driver = make(buffer_size=USED_CAPACITY)
    changed: set[str] = set()
    for _ in range(20):
        for transition in driver.env.transitions(6):
            before = copy.deepcopy(transition)
            driver.buffer.add(*transition)
            for name in ("obs", "next_obs", "info"):
                new, old = getattr(transition, name), getattr(before, name)
                changed |= {f"{name}[{key!r}]" for key in old if not _is_same(new.get(key), old[key])}
            changed |= set() if _is_same(transition.action, before.action) else {"action"}
            for array in (*transition.obs.values(), *transition.next_obs.values(), transition.action):
                array[...] = 77
    first = driver.buffer.sample(128)
    copies = driver.read(first, 128)
    stored = driver.add_episodes([6] * 5).rows(4)
    batch_changed = _changed_keys(first, copies)
    for batch in (first, *(driver.buffer.sample(128) for _ in range(3))):
        for key in copies:
            with contextlib.suppress(ValueError, TypeError):  # read-only arrays cannot be changed
                batch[key][...] = 55
    return MemoryChanges(sorted(changed), stored, batch_changed, driver.rows(4))


def _changed_keys(batch: dict[str, Any], copies: dict[str, np.ndarray]) -> list[str]:
    return [key for key in copies if not _is_same(batch[key], copies[key])]


def _is_same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=True))


# --- random generators and saved buffers ----------------------------------------------------------


def seeds(make: Make) -> list[Batches]:
    """Sample from three buffers with the same episodes: two with the same seed, one with another seed."""
    batches: list[Batches] = []
    for number, offset in enumerate((0, 0, 1)):
        driver = make(seed_offset=offset, buffer_size=USED_CAPACITY).add_episodes([6] * 15)
        np.random.random(number)  # noqa: NPY002 - gives the global generator another state
        batches.append([*driver.batches(2), *driver.add_episodes([6] * 15).batches(2)])
    return batches


def global_generators(make: Make) -> dict[str, bool]:
    """Return for each global random generator that a buffer uses, by name, whether the buffer seeds it."""
    changed: set[str] = set()

    def use_buffer() -> None:
        before = get_global_states()
        driver = make(buffer_size=CAPACITY).add_episodes([4] * 8)
        driver.batches(2, 32)
        driver.add_episodes([4] * 4).batches(2, 32)
        after = get_global_states()
        changed.update(name for name in before if before[name] != after[name])

    seeded = seeded_generators(use_buffer, before=lambda: None)
    return {name: name in seeded for name in sorted(changed)}


class SavedAndLoaded(NamedTuple):
    """Results of `saved_and_loaded`: rows of the loaded buffer, and batches of both buffers to compare."""

    rows: DecodedRows
    before: Batches  # sampled from the saved buffer after saving
    after: Batches  # sampled from the loaded buffer by the same calls


def saved_and_loaded(make: Make) -> SavedAndLoaded:
    """Load a saved buffer into a new one; sample from both, add episodes to both, and sample again."""
    driver = make(strategy="episode").add_episodes([5, 6, 7] * 6, ENDS)
    driver.batches(1)
    saved = copy.copy(driver)
    driver.reload()
    before, after = saved.batches(2), driver.batches(2)
    for transition in itertools.chain(*(driver.env.transitions(6) for _ in range(8))):
        for buffer in (saved.buffer, driver.buffer):
            buffer.add(*copy.deepcopy(transition), env_index=0)
    before, after = before + saved.batches(2), after + driver.batches(2)
    return SavedAndLoaded(DecodedRows(driver, after + driver.batches(8)), before, after)


class Prioritized(NamedTuple):
    """Rows sampled in one round of the scenario `set_priorities`, with age and priority of their steps."""

    rows: DecodedRows
    is_old: np.ndarray  # whether the step was added before the last update of priorities
    is_high: np.ndarray  # whether steps with this number have a priority of 20, not 1
    counts_of_new: np.ndarray  # number of rows of each step that was added after the last update


class PrioritizedRows(NamedTuple):
    """Results of `set_priorities`: rows of each round, and the caller's arrays that the buffer overwrote."""

    rounds: dict[str, Prioritized]
    arguments_changed: list[str]  # arguments of update_priorities
    batch_changed: list[str]  # keys of a batch whose arrays changed in later calls


def set_priorities(make: Make) -> PrioritizedRows:
    """Set priorities, save and load, evict episodes, and set priorities again; sample after each of these."""
    driver = make(prioritized=True, buffer_size=PRIORITIZED_CAPACITY).add_episodes([4] * 40)
    first = driver.buffer.sample(128)
    copies = driver.read(first, 128)
    rounds: dict[str, Prioritized] = {}
    changed: set[str] = set()

    def update(rows: DecodedRows, marked: int) -> None:
        """Set the priorities of the rows' transitions: 20 if the step number is ``marked``, otherwise 1."""
        index, priorities = rows.columns["index"].copy(), np.where(rows.step == marked, 20.0, 1.0)
        arguments = {"index": index, "priorities": priorities}
        before = copy.deepcopy(arguments)
        driver.buffer.update_priorities(index, priorities)
        changed.update(_changed_keys(arguments, before))

    def sample(situation: str, marked: int, num_new: int = 0) -> DecodedRows:
        rows, old = driver.rows(12), len(driver.env.episodes) - num_new
        counts = counts_of(rows.episode * 4 + rows.step, old * 4, (old + num_new) * 4)
        rounds[situation] = Prioritized(rows, rows.episode < old, rows.step == marked, counts)
        return rows

    update(driver.rows(12), marked=0)
    sample("after priorities are set", marked=0)
    if "save" in driver.adapter.offers:
        driver.reload()
        sample("after loading", marked=0)
    driver.add_episodes([4] * 20)
    update(sample("after adding episodes", marked=0, num_new=20), marked=3)
    sample("after priorities are set again", marked=3)
    return PrioritizedRows(rounds, sorted(changed), _changed_keys(first, copies))


DEMONSTRATIONS, SHARE = 8, 0.4
"""Number of demonstrations (the first episodes of the environment), and their share of a batch."""


def demonstrations(make: Make) -> dict[int, DecodedRows]:
    """Add episodes to a buffer with demonstrations until it evicts some; return rows by batch size."""
    env = make().env  # with rewards that fit the adapter
    episodes = [
        env.episode(6, end) for _, end in zip(range(DEMONSTRATIONS), itertools.cycle(ENDS), strict=False)
    ]
    driver = make(env=env, buffer_size=USED_CAPACITY, demonstrations=Demonstrations(episodes, SHARE))
    driver.add_episodes([6] * 40, ENDS).reload()
    return {size: driver.rows(count, size) for size, count in ((1, 200), (128, 48))}


class Scenario(NamedTuple):
    """A function that runs a scenario, and the conditions under which it runs."""

    run: Callable[[Make], Any]
    offers: AbstractSet[str] = frozenset()  # features that an adapter must offer, keys of `OFFERS`
    after: tuple[str, ...] = ()  # simpler scenarios of the same kind, which must have no faults


def _twenty_episodes(length: int = 6, **options: Any) -> Callable[[Make], DecodedRows]:
    """Return a scenario with 20 episodes of ``length`` steps in ``ConformanceEnv(**options)``."""
    return lambda make: make(env=ConformanceEnv(**options)).add_episodes([length] * 20).rows(8)


def _strategy(name: str) -> dict[str, Scenario]:
    """Return three scenarios of the goal selection strategy ``name``, as a dict by scenario name."""
    long, used = partial(long_episodes, strategy=name), partial(used_buffer, strategy=name)
    return {
        f"strategy {name}": Scenario(
            lambda make: make(strategy=name).add_episodes([6] * 60).rows(16), {name}
        ),
        f"strategy {name}{LONG_EPISODES}": Scenario(long, {name}, ("different lengths",)),
        f"strategy {name}{USED}": Scenario(used, {name}, SITUATIONS),
    }


SITUATIONS = ("different lengths", "full buffer", "overwritten without sampling", "saved and loaded")
"""A used buffer combines the conditions of these scenarios, and runs only if they have no wrong rows."""

WINDOWS: dict[str, Any] = {"n_steps": N_STEPS, "gamma": GAMMA}
EQUAL_EPISODES = "equal episodes"
ENDS_OF_EPISODES = "ends of episodes"

SCENARIOS: dict[str, Scenario] = {
    EQUAL_EPISODES: Scenario(equal_episodes),  # must succeed for the others to run
    ENDS_OF_EPISODES: Scenario(lambda make: make(strategy="episode").add_episodes([5] * 60, ENDS).rows(16)),
    "goals that change": Scenario(_twenty_episodes(8, changing=True), {"changing goals"}),
    "rewards with a bonus": Scenario(_twenty_episodes(bonus=-0.25), {"recorded rewards"}),
    "rewards with costs": Scenario(_twenty_episodes(costs=True), {"infos"}),
    **{key: each for name in STRATEGIES for key, each in _strategy(name).items()},
    "one relabeled per original": Scenario(
        lambda make: make(n_sampled_goal=1).add_episodes([6] * 60).rows(12)
    ),
    "small batches": Scenario(small_batches),
    "few episodes": Scenario(lambda make: make().add_episodes([HORIZON] * 3).rows(12)),
    "image goals": Scenario(_twenty_episodes(kind="image"), {"images"}),
    "discrete goals": Scenario(_twenty_episodes(kind="discrete"), {"discrete"}),
    "different lengths": Scenario(different_lengths),
    "full buffer": Scenario(full_buffer),
    "overwritten without sampling": Scenario(overwritten_without_sampling),
    "episode as long as the buffer": Scenario(
        lambda make: make(buffer_size=HORIZON).add_episodes([HORIZON] * 2).rows(4)
    ),
    "open episode": Scenario(lambda make: make().add_episodes([6] * 4).add_episodes([8], steps=4).rows(8)),
    "interrupted episode": Scenario(interrupted_episode, {"end episode"}),
    "interleaved steps": Scenario(interleaved_steps, {"several environments"}),
    "shared memory": Scenario(shared_memory),
    "seeds": Scenario(seeds, {"seed"}),
    "global generators": Scenario(global_generators),
    "saved and loaded": Scenario(saved_and_loaded, {"save"}),
    "n-step returns": Scenario(
        lambda make: make(**WINDOWS, env=ConformanceEnv()).add_episodes([7] * 40, ENDS).rows(10), {"n-step"}
    ),
    f"n-step returns{USED}": Scenario(partial(used_buffer, **WINDOWS), {"n-step"}, SITUATIONS),
    "set priorities": Scenario(set_priorities, {"priorities"}),
    "kept demonstrations": Scenario(demonstrations, {"demonstrations"}),
}
"""All scenarios by name, in the order in which a check runs them."""


def run_scenario(name: str, adapter: type[ReplayAdapter], seed: int = 0) -> Any:
    """Run one scenario without `check_replay`, so that an exception of the adapter shows its traceback.

    Args:
        name: Name of the scenario, as in a finding.
        adapter: The adapter class.
        seed: Seed of buffers and episodes.

    Raises:
        Exception: Any exception that the adapter raises.
    """
    return SCENARIOS[name].run(partial(BufferDriver, adapter, seed=seed))
