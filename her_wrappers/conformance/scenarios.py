"""Scenarios: functions that fill new buffers and return the rows that they sample.

A scenario gets a function that makes a `BufferDriver` with a new buffer. `SCENARIOS` has all scenarios in the
order in which a check runs them, simple ones first. Each aspect of the rows of each scenario is a rule, see
``rules/aspects.py``; statistical rules judge the same rows.
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
from her_wrappers.conformance.driver import HORIZON, BufferDriver
from her_wrappers.conformance.env import ALL_ENDS, ENDS, ConformanceEnv, EndOfEpisode
from her_wrappers.conformance.rows import Batches, Rows
from her_wrappers.recording.episode import Episode
from her_wrappers.replay.options import Demonstrations

CAPACITY, USED_CAPACITY, PRIORITIZED_CAPACITY = 40, 120, 200
"""Values of buffer_size of the scenarios in which transitions are overwritten."""

WINDOWS: dict[str, Any] = {"n_steps": 3, "gamma": 0.5}
"""Options of the scenarios of n-step returns."""

Make: TypeAlias = Callable[..., BufferDriver]
"""Function that makes a driver with a new buffer; its keyword arguments are those of `BufferDriver`."""


class Result(NamedTuple):
    """Rows that a scenario sampled in one or several states of a buffer, and other facts for its rules."""

    rows: Sequence[Rows]
    facts: Any = None


class Scenario(NamedTuple):
    """A function that runs a scenario, and the texts of its rules."""

    number: int  # last two digits of the codes of its rules; variants of a scenario share them
    run: Callable[[Make], Result]
    fix: str
    offers: AbstractSet[str] = frozenset()  # features that an adapter must offer, keys of `OFFERS`
    after: tuple[str, ...] = ()  # simpler scenarios, which must have no wrong rows


def _episodes(
    lengths: Sequence[int], count: int, ends: Sequence[EndOfEpisode] = ENDS[:1], **options: Any
) -> Callable[[Make], Result]:
    """Return a scenario that adds episodes to a buffer and samples ``count`` batches."""
    return lambda make: Result([make(**options).add_episodes(lengths, ends).rows(count)])


def _kind(**options: Any) -> Callable[[Make], Result]:
    """Return a scenario with 20 episodes of 8 steps in ``ConformanceEnv(**options)``."""
    return lambda make: Result([make(env=ConformanceEnv(**options)).add_episodes([8] * 20).rows(10)])


def small_batches(make: Make) -> Result:
    """Sample batches of 1 row and batches of 2 rows."""
    driver = make().add_episodes([6] * 60)
    return Result([driver.rows(120, size) for size in (1, 2)])


# --- storage --------------------------------------------------------------------------------------


def different_lengths(make: Make) -> Result:
    """Sample rows from episodes of 1 to 12 steps, first of growing, then of mixed lengths."""
    driver = make()
    growing = np.arange(1, HORIZON + 1)
    mixed = driver.rng.permutation(np.tile(growing, 7))
    driver.add_episodes([*growing.tolist(), HORIZON, *mixed.tolist()], ALL_ENDS)
    return Result([driver.rows(30)])


LONG = (600, 150, 150, 150, 150)
"""Numbers of steps of long episodes; 600 steps exceed the range of a byte."""


def long_episodes(make: Make, strategy: str) -> Result:
    """Sample rows from episodes of `LONG` steps."""
    driver = make(max_episode_steps=max(LONG), strategy=strategy).add_episodes(LONG)
    return Result([driver.rows(6, 256)])


def n_step_returns(make: Make) -> Result:
    """Sample rows with n-step returns, from episodes with all ends."""
    return Result([make(**WINDOWS, env=ConformanceEnv()).add_episodes([7] * 40, ALL_ENDS).rows(20)])


def used_buffer(make: Make, **options: Any) -> Result:
    """Sample rows from a buffer that has evicted episodes, and was sampled, saved and loaded before."""
    driver = make(buffer_size=USED_CAPACITY, **options)
    # The goal of the original rows of a window is undefined if goals change.
    driver.env.changing &= "n_steps" not in options
    for part in range(6):
        driver.add_episodes((1 + driver.rng.permutation(HORIZON)).tolist(), ALL_ENDS).batches(1)
        if part == 3 and "save" in driver.adapter.offers:
            driver.reload()
    return Result([driver.rows(24)])


def full_buffer(make: Make) -> Result:
    """Add several times as many steps as the buffer can store; sample rows between the episodes."""
    driver = make(buffer_size=CAPACITY, strategy="episode")
    sampled, ends = [], itertools.cycle(ALL_ENDS)
    for number, length in enumerate(driver.rng.integers(1, 10, size=48).tolist()):
        driver.add_episodes([length], [next(ends)])
        if number >= 8 and number % 2 == 0:
            sampled.append(driver.rows(2, 96))
    return Result(sampled)


def overwritten_without_sampling(make: Make) -> Result:
    """Sample a batch, overwrite all transitions without sampling in between, and then sample rows."""
    driver = make(buffer_size=CAPACITY).add_episodes([5] * 8)
    driver.batches(1)
    return Result([driver.add_episodes([3, 7] * 4).rows(8)])


def open_episode(make: Make) -> Result:
    """Sample rows while an episode is open, and after its end."""
    driver = make(strategy="final").add_episodes([6] * 4)
    steps = driver.env.transitions(8)
    for step in itertools.islice(steps, 4):
        driver.add(*step)
    sampled = [driver.rows(8)]
    for step in steps:
        driver.add(*step)
    return Result([*sampled, driver.rows(8)])


def interrupted_episode(make: Make) -> Result:
    """Sample rows from 12 episodes; in half of them, ``end_episode`` is called after 3 of 8 steps."""
    driver = make(strategy="final")
    for _ in range(6):
        driver.add_episodes([8], steps=3).end_episode(0)
        driver.add_episodes([5])
    return Result([driver.rows(12)])


def interleaved_steps(make: Make, *, interrupts: bool = False) -> Result:
    """Sample rows from interleaved steps of three environments, with episodes of different lengths.

    With ``interrupts``, the second environment is reset in the middle of some of its episodes.
    """
    driver = make(num_envs=3, strategy="final")

    def endless(ends: Sequence[EndOfEpisode]) -> Iterator[Any]:
        for end in itertools.cycle(ends):
            yield from driver.env.transitions(int(driver.rng.integers(1, 9)), end)

    streams = [endless(ends) for ends in (ENDS[:1], ENDS[:2], ALL_ENDS)]
    for number in range(60):
        for env_index, stream in enumerate(streams):
            arrays, numbers = next(stream)
            driver.add(arrays, numbers, env_index)
        if interrupts and number % 3 == 0 and 1 in driver.oracle.open:
            is_open = set(driver.oracle.open)
            driver.end_episode(1)
            for env_index in is_open - driver.oracle.open.keys():
                streams[env_index] = endless(ENDS)
    return Result([driver.rows(40)])


# --- memory that is shared with the caller --------------------------------------------------------


class MemoryChanges(NamedTuple):
    """Values that changed, but should not."""

    arguments: list[str]  # such as action or obs['desired_goal']
    batches: list[str]  # keys of a batch whose arrays changed in later calls


def changed_arguments(make: Make) -> Result:
    """Overwrite added arrays and infos, as environments do that reuse one array for all observations."""
    driver = make(buffer_size=USED_CAPACITY)
    changed: set[str] = set()
    for _ in range(20):
        for arrays, numbers in driver.env.transitions(6):
            before = copy.deepcopy(arrays)
            driver.add(arrays, numbers)
            for name in ("obs", "next_obs", "info"):
                new, old = getattr(arrays, name), getattr(before, name)
                changed |= {f"{name}[{key!r}]" for key in old if not _is_same(new.get(key), old[key])}
            changed |= set() if _is_same(arrays.action, before.action) else {"action"}
            for array in (*arrays.obs.values(), *arrays.next_obs.values(), arrays.action):
                array[...] = 77
            arrays.info["cost"] = 77.0
    return Result([driver.rows(24)], MemoryChanges(sorted(changed), []))


def changed_batches(make: Make) -> Result:
    """Overwrite sampled arrays, of large batches and of batches of one row; sample, add and sample again."""
    driver = make(buffer_size=USED_CAPACITY).add_episodes([6] * 20)
    sizes = (128, 1, 1)
    first = [driver.buffer.sample(size) for size in sizes]
    copies = [driver.read(batch, size) for batch, size in zip(first, sizes, strict=True)]
    driver.add_episodes([6] * 5)
    later = [driver.buffer.sample(size) for size in (128, 128, *[1] * 60)]
    changed = [key for batch, read in zip(first, copies, strict=True) for key in changed_keys(batch, read)]
    for batch in (*first, *later):
        for key in copies[0]:
            with contextlib.suppress(ValueError, TypeError, KeyError):  # read-only arrays cannot be changed
                batch[key][...] = 55
    return Result([driver.rows(4), driver.rows(60, 1)], MemoryChanges([], list(dict.fromkeys(changed))))


def changed_keys(batch: dict[str, Any], copies: dict[str, np.ndarray]) -> list[str]:
    """Return the keys whose values differ from earlier copies."""
    return [key for key in copies if not _is_same(batch[key], copies[key])]


def _is_same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=True))


# --- random generators and saved buffers ----------------------------------------------------------


def seeds(make: Make) -> Result:
    """Sample from three buffers with the same episodes: two with the same seed, one with another seed."""
    batches: list[Batches] = []
    for number, offset in enumerate((0, 0, 1)):
        driver = make(seed_offset=offset, buffer_size=USED_CAPACITY).add_episodes([6] * 15)
        np.random.random(number)  # noqa: NPY002 - gives the global generator another state
        batches.append([*driver.batches(2), *driver.add_episodes([6] * 15).batches(2)])
    return Result([], batches)


def global_generators(make: Make) -> Result:
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
    return Result([], {name: name in seeded for name in sorted(changed)})


def saved_and_loaded(make: Make, *, into_used: bool = False) -> Result:
    """Save a buffer with an open episode, load it, end the episode, add others, and evict some.

    The facts are batches of the saved and of the loaded buffer, sampled by the same calls.
    """
    driver = make(strategy="episode", buffer_size=USED_CAPACITY).add_episodes([5, 6, 7] * 5, ENDS)
    if into_used:
        other = make(strategy="episode", buffer_size=USED_CAPACITY, env=driver.env, seed_offset=1)
        other.add_episodes([4, 9] * 4, ENDS).add_episodes([7], steps=2).batches(1)
    steps = driver.env.transitions(8)
    for step in itertools.islice(steps, 3):
        driver.add(*step)
    driver.batches(1)
    saved = driver.buffer
    driver.reload(other.buffer if into_used else None)
    pairs: tuple[list[Any], list[Any]] = ([], [])

    def sample_both() -> None:
        for batches, buffer in zip(pairs, (saved, driver.buffer), strict=True):
            batches.extend(driver.read(buffer.sample(128), 128) for _ in range(2))

    sample_both()
    sampled = [driver.compare(pairs[1])]
    for arrays, numbers in steps:
        saved.add(*copy.deepcopy(arrays), env_index=0)
        driver.add(arrays, numbers)
    sample_both()
    sampled.append(driver.rows(20))
    driver.add_episodes([6] * 8, ["crash"])
    return Result([*sampled, driver.rows(16)], pairs)


# --- priorities and demonstrations ----------------------------------------------------------------


class Prioritized(NamedTuple):
    """Rows sampled in one round of the scenario `set_priorities`, with age and priority of their steps."""

    rows: Rows
    is_old: np.ndarray  # whether the step was added before the last update of priorities
    is_high: np.ndarray  # whether steps with this number have a priority of 20, not 1
    counts_of_new: np.ndarray  # number of rows of each step that was added after the last update
    counts_of_high: np.ndarray  # number of rows of each stored step whose priority was set to 20


class PrioritizedRows(NamedTuple):
    """Results of `set_priorities`: rows of each round, and memory that changed."""

    rounds: dict[str, Prioritized]
    changes: MemoryChanges


def set_priorities(make: Make) -> Result:
    """Set priorities, save and load, evict episodes, and set priorities again; sample after each of these.

    The last updates have indices of evicted transitions too. If indices are used again, they are those of new
    transitions with the same step number, which get the same new priority. Otherwise, an update of evicted
    transitions has no effect, and gives them other priorities.
    """
    driver = make(prioritized=True, buffer_size=PRIORITIZED_CAPACITY).add_episodes([4] * 40)
    first = driver.buffer.sample(128)
    copies = driver.read(first, 128)
    rounds: dict[str, Prioritized] = {}
    changed: set[str] = set()
    high: set[int] = set()

    def update(sampled: Sequence[Rows], marked: int) -> None:
        """Set the priorities of the rows' transitions: 20 if the step number is ``marked``, otherwise 1."""
        for rows in sampled:
            index, priorities = rows.columns["index"].copy(), np.where(rows.step == marked, 20.0, 1.0)
            arguments = {"index": index, "priorities": priorities}
            before = copy.deepcopy(arguments)
            driver.buffer.update_priorities(index, priorities)
            changed.update(changed_keys(arguments, before))
            high.difference_update(rows.transition.tolist())
            high.update(rows.transition[rows.step == marked].tolist())

    def sample(situation: str, marked: int, num_new: int = 0) -> Rows:
        rows, old = driver.rows(16 + num_new // 2), len(driver.env.episodes) - num_new
        transitions = [number * 1024 + t for number in range(old, old + num_new) for t in range(4)]
        stored = set(
            (np.multiply.outer(rows.judged_steps()[0], [1024]).ravel() + rows.judged_steps()[1]).tolist()
        )
        counts, of_high = (
            (rows.transition[:, None] == np.array(sorted(chosen), int)).sum(axis=0)
            for chosen in (transitions, high & stored)
        )
        rounds[situation] = Prioritized(rows, rows.episode < old, rows.step == marked, counts, of_high)
        return rows

    before = driver.rows(32)
    update([before], marked=0)
    sample("after priorities are set", marked=0)
    if "save" in driver.adapter.offers:
        driver.reload()
        sample("after loading", marked=0)
    driver.add_episodes([4] * 20)
    rows = sample("after adding episodes", marked=0, num_new=20)
    update([before, rows], marked=3)
    first_stored = driver.env.episodes.index(driver.oracle.episodes[0])
    index, is_gone = before.columns["index"], before.episode < first_stored
    is_gone &= ~np.isin(index, rows.columns["index"])
    if is_gone.any():
        driver.buffer.update_priorities(index[is_gone], np.where(before.step == 3, 1.0, 20.0)[is_gone])
    sample("after priorities are set again", marked=3)
    changes = MemoryChanges(sorted(changed), changed_keys(first, copies))
    return Result([before, *(each.rows for each in rounds.values())], PrioritizedRows(rounds, changes))


DEMONSTRATIONS, SHARE = 8, 0.4
"""Number of demonstrations (the first episodes of the environment), and their share of a batch."""


def demonstrations(make: Make) -> Result:
    """Add episodes to a buffer with demonstrations until it evicts some; the facts are the batch sizes."""
    teacher = make(strategy="future")  # its oracle numbers the demonstrations
    given = []
    for end in itertools.islice(itertools.cycle(ENDS), DEMONSTRATIONS):
        steps = list(teacher.env.transitions(6, end))
        for step in steps:
            teacher.add(*step)
        given.append(_as_episode([arrays for arrays, _ in steps]))
    driver = make(env=teacher.env, buffer_size=USED_CAPACITY, demonstrations=Demonstrations(given, SHARE))
    driver.kept = teacher.oracle.episodes
    driver.add_episodes([6] * 40, ENDS)
    if "save" in driver.adapter.offers:
        driver.reload()
    sizes = {1: 200, 128: 48}
    return Result([driver.rows(count, size) for size, count in sizes.items()], list(sizes))


def _as_episode(steps: Sequence[Any]) -> Episode:
    states = [*(step.obs for step in steps), steps[-1].next_obs]
    return Episode(
        observations={key: np.stack([state[key] for state in states]) for key in states[0]},
        actions=np.stack([step.action for step in steps]),
        rewards=np.array([step.reward for step in steps]),
        terminated=steps[-1].terminated,
        truncated=steps[-1].truncated,
        infos={key: np.array([step.info[key] for step in steps]) for key in steps[0].info},
    )


# --- all scenarios --------------------------------------------------------------------------------

EQUAL_EPISODES = "equal episodes"
SITUATIONS = ("different lengths", "full buffer", "overwritten without sampling", "saved and loaded")
"""A used buffer combines the conditions of these scenarios, and runs only if they have no wrong rows."""

USED, LONG_EPISODES = ", used buffer", ", long episodes"
"""Suffixes of the names of variants of a scenario."""


def _strategies(*variants: str) -> dict[str, Scenario]:
    """Return scenarios of each goal selection strategy, by name, with the given suffixes."""
    found: dict[str, Scenario] = {}
    for number, name in enumerate(STRATEGIES, 40):
        found |= {f"strategy {name}{each}": _strategy(name, number)[each] for each in variants}
    return found


def _strategy(name: str, number: int) -> dict[str, Scenario]:
    """Return three scenarios of the goal selection strategy ``name``, by the suffix of their names."""
    fix = "choose goals as section 4.5 of the HER paper defines the strategy, in short and in long episodes"
    plain, used = _episodes([6] * 60, 16, strategy=name), partial(used_buffer, strategy=name)
    long = partial(long_episodes, strategy=name)
    return {
        "": Scenario(number, plain, fix, {name}),
        LONG_EPISODES: Scenario(number, long, fix, {name}, ("different lengths",)),
        USED: Scenario(number, used, fix, {name}, SITUATIONS),
    }


_ENDS = _episodes([5] * 60, 24, ALL_ENDS, strategy="episode")
_FULL_LENGTH = _episodes([HORIZON] * 2, 8, buffer_size=HORIZON)
_INTERRUPTS = partial(interleaved_steps, interrupts=True)
_N_STEPS = "end a window at the end of the episode, or at the first step that terminates for the row's goal"

SCENARIOS: dict[str, Scenario] = {
    # Episodes, which are simple in all but one thing.
    EQUAL_EPISODES: Scenario(1, _episodes([6] * 300, 48), "read all fields of a row with the same index"),
    "ends of episodes": Scenario(2, _ENDS, "keep terminated and truncated apart, and crashes for any goal"),
    "goals that change": Scenario(
        3, _kind(changing=True), "store the goal of each state", {"changing goals"}
    ),
    "rewards with a bonus": Scenario(4, _kind(bonus=-0.25), "store recorded rewards", {"recorded rewards"}),
    "rewards with costs": Scenario(5, _kind(costs=True), "pass the info of the row's step", {"infos"}),
    "image goals": Scenario(6, _kind(kind="image"), "store goals with the dtype of their space", {"images"}),
    "discrete goals": Scenario(7, _kind(kind="discrete"), "keep the dtype of their space", {"discrete"}),
    "different lengths": Scenario(8, different_lengths, "store the length of each episode"),
    "few episodes": Scenario(9, _episodes([HORIZON] * 3, 16), "sample all stored transitions"),
    "small batches": Scenario(10, small_batches, "use the same code for all batch sizes"),
    "one relabeled per original": Scenario(
        11, _episodes([6] * 60, 12, n_sampled_goal=1), "use n_sampled_goal"
    ),
    **_strategies(""),
    # Eviction, open episodes, and several environments.
    "full buffer": Scenario(20, full_buffer, "evict the oldest episode first, and forget its bounds"),
    "overwritten without sampling": Scenario(21, overwritten_without_sampling, "update bounds when adding"),
    "episode as long as the buffer": Scenario(22, _FULL_LENGTH, "distinguish a full ring from an empty one"),
    "open episode": Scenario(23, open_episode, "sample complete episodes only"),
    "interrupted episode": Scenario(24, interrupted_episode, "end it at its last step", {"end episode"}),
    "interleaved steps": Scenario(
        25, interleaved_steps, "store an open episode for each environment", {"several environments"}
    ),
    "one of several interrupted": Scenario(
        26,
        _INTERRUPTS,
        "end only the open episode of the environment env_index",
        {"several environments", "end episode"},
        ("interleaved steps", "interrupted episode"),
    ),
    # Memory and files.
    "changed arguments": Scenario(27, changed_arguments, "copy arrays and infos before storing them"),
    "changed batches": Scenario(
        28, changed_batches, "return copies, also of one row", after=("small batches", "full buffer")
    ),
    "saved and loaded": Scenario(
        30, saved_and_loaded, "save all of the buffer, with open episodes", {"save"}, ("full buffer",)
    ),
    "loaded into a used buffer": Scenario(
        31,
        partial(saved_and_loaded, into_used=True),
        "remove all transitions and open episodes before loading",
        {"save"},
        ("saved and loaded",),
    ),
    # Options.
    **_strategies(LONG_EPISODES, USED),
    "n-step returns": Scenario(50, n_step_returns, _N_STEPS, {"n-step"}),
    f"n-step returns{USED}": Scenario(50, partial(used_buffer, **WINDOWS), _N_STEPS, {"n-step"}, SITUATIONS),
    "set priorities": Scenario(
        60, set_priorities, "sample by priority, then relabel as usual", {"priorities"}
    ),
    "kept demonstrations": Scenario(70, demonstrations, "treat them as other episodes", {"demonstrations"}),
    # Without rows.
    "seeds": Scenario(80, seeds, "", {"seed"}),
    "global generators": Scenario(81, global_generators, ""),
}
"""All scenarios by name, in the order in which a check runs them."""


def run_scenario(name: str, adapter: type[ReplayAdapter], seed: int = 0) -> Result:
    """Run one scenario without `check_replay`, so that an exception of the adapter shows its traceback.

    Args:
        name: Name of the scenario, as in a finding.
        adapter: The adapter class.
        seed: Seed of buffers and episodes.

    Raises:
        Exception: Any exception that the adapter raises.
    """
    return SCENARIOS[name].run(partial(BufferDriver, adapter, seed=seed))
