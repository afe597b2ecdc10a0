"""Scenarios: functions that fill new buffers, simple situations first, and return sampled rows."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from her_wrappers.checker.global_generators import seeded_generators, used_generators
from her_wrappers.conformance.adapter import STRATEGIES, ReplayAdapter
from her_wrappers.conformance.driver import HORIZON, BufferDriver
from her_wrappers.conformance.env import ALL_ENDS, ENDS
from her_wrappers.conformance.rows import Batches, Rows

CAPACITY, USED_CAPACITY = 40, 120
"""Small values of buffer_size, in transitions, so that a few episodes fill a buffer."""

Make: TypeAlias = Callable[..., BufferDriver]
"""Function that makes a driver with a new buffer; its keyword arguments are those of `BufferDriver`."""

Run = TypeVar("Run", bound=Callable[..., Any])


@dataclass
class Result:
    """Rows that a scenario sampled, one `Rows` for each state of a buffer, and other facts for its rules."""

    rows: Sequence[Rows]
    facts: Any = None
    drivers: list[BufferDriver] = field(default_factory=list)
    is_clean: bool = True  # whether the rows have no fault, except those of earlier scenarios


class Scenario(NamedTuple):
    """A function that runs a scenario, and fields of the scenario's rules."""

    number: int  # last two digits of the codes of its rules on rows; from 80 on, it has none
    run: Callable[[Make], Result]
    fix: str
    offers: frozenset[str]  # features that an adapter must offer, keys of `OFFERS`


SCENARIOS: dict[str, Scenario] = {}  # all scenarios by name, in the order in which a check runs them

EQUAL_EPISODES = "equal episodes"


def scenario(number: int, fix: str, *offers: str, name: str = "") -> Callable[[Run], Run]:
    """Return a decorator that adds a function to `SCENARIOS`; ``name`` defaults to the function's name."""

    def add(run: Run) -> Run:
        key = name or run.__name__.replace("_", " ")
        SCENARIOS[key] = Scenario(number, run, fix, frozenset(offers))
        return run

    return add


def run_scenario(name: str, adapter: type[ReplayAdapter], seed: int = 0) -> Result:
    """Run the scenario ``name`` of a finding, so that an exception of the adapter shows its traceback."""
    return SCENARIOS[name].run(partial(BufferDriver, adapter, seed=seed))


# --- episodes that are simple in all but one thing ------------------------------------------------


def _sample(
    lengths: Sequence[int], count: int, ends: Sequence[str] = ENDS[:1], **options: Any
) -> Callable[[Make], Result]:
    """Return a scenario that adds episodes to a buffer and samples ``count`` batches."""
    return lambda make: Result([make(**options).add_episodes(lengths, ends).rows(count)])


scenario(1, "read all fields of a row with the same index", name=EQUAL_EPISODES)(_sample([6] * 200, 36))
scenario(2, "keep terminated and truncated apart, and crashes for any goal", name="ends of episodes")(
    _sample([5] * 60, 24, ALL_ENDS, strategy="episode")
)
for _number, _offer, _name, _option, _fix in (
    (3, "changing goals", "goals that change", {"changing": True}, "store the goal of each state"),
    (4, "recorded rewards", "rewards with a bonus", {"bonus": -0.25}, "store recorded rewards"),
    (5, "infos", "rewards with costs", {"costs": True}, "pass the info of the row's step"),
    (6, "images", "image goals", {"kind": "image"}, "store goals with the dtype of their space"),
    (7, "discrete", "discrete goals", {"kind": "discrete"}, "store goals with the dtype of their space"),
):
    scenario(_number, _fix, _offer, name=_name)(_sample([8] * 12, 5, env=_option))


@scenario(8, "store the length of each episode")
def different_lengths(make: Make) -> Result:
    """Add episodes of 1 to 12 steps, first of growing, then of mixed lengths; sample rows, half relabeled."""
    driver = make(n_sampled_goal=1)
    growing = [*range(1, HORIZON + 1)]
    mixed = driver.rng.permutation(growing * 4).tolist()
    return Result([driver.add_episodes([*growing, HORIZON, *mixed], ALL_ENDS).rows(24)])


def goal_strategy(make: Make, strategy: str) -> Result:
    """Sample rows from short and from long episodes with the goal selection strategy ``strategy``."""
    short = make(strategy=strategy).add_episodes([6] * 40)
    long = make(strategy=strategy, max_episode_steps=600).add_episodes([600, 60, 60, 60])  # exceeds a byte
    return Result([short.rows(8), long.rows(12)])


_FIX = "choose goals as section 4.5 of the HER paper defines the strategy, in short and in long episodes"
for _number, _name in enumerate(STRATEGIES, 40):
    scenario(_number, _FIX, _name, name=f"strategy {_name}")(partial(goal_strategy, strategy=_name))


@scenario(10, "use the same code for all batch sizes")
def small_batches(make: Make) -> Result:
    """Sample batches of 1 row and batches of 2 rows."""
    driver = make().add_episodes([6] * 40)
    return Result([driver.rows(120, size) for size in (1, 2)])


@scenario(20, "evict the oldest episode first, and update all bounds, also if nothing is sampled in between")
def full_buffer(make: Make) -> Result:
    """Add several times as many steps as the buffer can store; sample rows after every 2 or 8 episodes."""
    driver = make(buffer_size=CAPACITY, strategy="episode")
    sampled, ends = [], itertools.cycle(ALL_ENDS)
    for number, length in enumerate(driver.rng.integers(1, 10, size=40).tolist()):
        driver.add_episodes([length], [next(ends)])
        if number >= 8 and number % 2 == 0:
            sampled.append(driver.rows(1))
    last = [driver.add_episodes(lengths).rows(4) for lengths in ([5] * 8, [3, 7] * 4)]  # CAPACITY steps
    return Result([*sampled, *last])


scenario(22, "distinguish a full ring from an empty one", name="episode as long as the buffer")(
    _sample([HORIZON] * 2, 4, buffer_size=HORIZON)
)


@scenario(23, "sample complete episodes only")
def open_episode(make: Make) -> Result:
    """Sample rows while an episode is open, and after its end."""
    driver = make(strategy="final").add_episodes([5, 3])  # few steps, so that each is sampled often
    steps = driver.env.transitions(8)
    driver.add_steps(steps, 4)
    sampled = [driver.rows(4)]
    driver.add_steps(steps)
    return Result([*sampled, driver.rows(4)])


@scenario(25, "store an open episode for each environment", "several environments")
def interleaved_steps(make: Make, *, interrupts: bool = False) -> Result:
    """Sample rows from interleaved steps of three environments; ``interrupts`` resets the second one."""
    driver = make(num_envs=3, strategy="final")

    def endless(ends: Sequence[str]) -> Iterator[Any]:
        for end in itertools.cycle(ends):
            yield from driver.env.transitions(int(driver.rng.integers(1, 9)), end)

    streams = [endless(ends) for ends in (ALL_ENDS, ENDS[:2], ENDS[:1])[: driver.options["num_envs"]]]
    second = len(streams) // 2
    for number in range(60):
        for env_index, stream in enumerate(streams):
            arrays, numbers = next(stream)
            driver.add(arrays, numbers, env_index)
        if interrupts and number % 3 == 0 and second in driver.oracle.open:
            is_open = set(driver.oracle.open)
            driver.end_episode(second)
            for env_index in is_open - driver.oracle.open.keys():
                streams[env_index] = endless(ENDS)
    return Result([driver.rows(14)])


scenario(
    24, "end only the episode of env_index, at its last step", "end episode", name="interrupted episodes"
)(partial(interleaved_steps, interrupts=True))


@scenario(27, "copy arrays and infos before storing them")
def changed_arguments(make: Make) -> Result:
    """Add steps, some of interrupted episodes, and overwrite their arrays, like an env that reuses them."""
    driver = make(buffer_size=USED_CAPACITY)
    for number in range(20):
        for t, (arrays, numbers) in enumerate(driver.env.transitions(6)):
            if t == 3 and number % 5 == 2 and "end episode" in driver.adapter.offers:
                driver.end_episode()
                break
            with driver.watched(arrays._asdict()):
                driver.add(arrays, numbers)
            for array in (*arrays.obs.values(), *arrays.next_obs.values(), arrays.action):
                array[...] = 77
            arrays.info["cost"] = 77.0
    return Result([driver.rows(12)])


@scenario(28, "return copies, also of one row")
def changed_batches(make: Make) -> Result:
    """Sample a large batch and batches of one row, overwrite all their arrays, then sample again."""
    driver = make(buffer_size=USED_CAPACITY).add_episodes([6] * 20)
    for batch in [driver.buffer.sample(size) for size in (128, *[1] * 60)]:
        for array in batch.values():
            with contextlib.suppress(ValueError, TypeError):  # read-only arrays cannot be changed
                array[...] = 55
    return Result([driver.rows(4), driver.rows(60, 1)])


# --- random generators and saved buffers ----------------------------------------------------------


@scenario(30, "save all of the buffer, with open episodes", "save")
def saved_and_loaded(make: Make, *, into_used: bool = False) -> Result:
    """Save a full buffer with an open episode, load it, end the episode, add others, and evict some.

    With ``into_used``, the buffer that loads it has other episodes. The facts are the batches of the saved
    and those of the loaded buffer after the same calls.
    """
    driver = make(strategy="episode", buffer_size=USED_CAPACITY)
    driver.add_episodes([5, 6, 7] * (5 if into_used else 10), ENDS)
    if into_used:
        other = make(strategy="episode", buffer_size=USED_CAPACITY, env=driver.env, seed_offset=1)
        other.add_episodes([4, 9] * 4, ENDS).add_episodes([7], steps=2).batches(1)
    steps = driver.env.transitions(8)
    driver.add_steps(steps, 3)
    driver.batches(1)
    saved = driver.buffer
    driver.reload(other.buffer if into_used else None)
    pairs: tuple[list[Any], list[Any]] = ([], [])

    def sample_both() -> None:
        for batches, buffer in zip(pairs, (saved, driver.buffer), strict=True):
            batches.extend(driver.read(buffer.sample(128), 128) for _ in range(2))

    sample_both()
    sampled = [Rows(pairs[1], driver)]
    for arrays, numbers in steps:
        saved.add(*copy.deepcopy(arrays), env_index=0)
        driver.add(arrays, numbers)
    sample_both()
    sampled.append(driver.rows(8))
    driver.add_episodes([6] * 8, ["crash"])
    return Result([*sampled, driver.rows(6)], pairs)


scenario(
    31, "remove all transitions and open episodes before loading", "save", name="loaded into a used buffer"
)(partial(saved_and_loaded, into_used=True))


@scenario(21, "combine eviction, changing goals, all ends, and saving")
def used_buffer(make: Make) -> Result:
    """For each strategy that the adapter offers, overfill, save, load and sample a buffer."""
    offers = make().adapter.offers
    return Result([_used(make, strategy=each) for each in STRATEGIES if each in offers])


def _used(make: Make, **options: Any) -> Rows:
    """Sample rows from a buffer that has evicted episodes, and was sampled, saved and loaded before."""
    driver = make(buffer_size=USED_CAPACITY, **options)
    # If goals change inside a window of several steps, the goal of its original row is undefined.
    driver.env.changing &= "n_steps" not in options
    for part in range(5):
        driver.add_episodes((1 + driver.rng.permutation(HORIZON)).tolist(), ALL_ENDS).batches(1)
        if part == 2:
            driver.reload()
    return driver.rows(10)


_FIX = "end a window at the end of the episode, or at the first step that terminates for the row's goal"


@scenario(50, _FIX, "n-step", name="n-step returns")
def n_step_returns(make: Make) -> Result:
    """Sample rows with n-step returns, from episodes with all ends, and from a used buffer."""
    options: dict[str, Any] = {"n_steps": 3, "gamma": 0.5}
    driver = make(**options, env={}).add_episodes([7] * 30, ALL_ENDS)
    return Result([driver.rows(10), _used(make, **options)])


# --- priorities -----------------------------------------------------------------------------------


class Round(NamedTuple):
    """Rows that were sampled after priorities were set, or after episodes were added or loaded."""

    situation: str
    rows: Rows
    marked: int  # in the old episodes, step t has priority 20 if t equals ``marked``, else 1
    num_old: int  # number of old episodes: episodes that were added before the last update of priorities


@scenario(60, "sample by priority, then relabel as usual", "priorities")
def set_priorities(make: Make) -> Result:
    """Set priorities, save and load, evict episodes, and set priorities again; sample after each of these.

    The last updates contain indices of evicted transitions too. If the buffer uses such an index again, the
    new transition has the same priority. Other indices get the opposite one, which must have no effect.
    """
    driver = make(prioritized=True, buffer_size=200).add_episodes([4] * 45)
    rounds: list[Round] = []

    def update(index: np.ndarray, is_high: np.ndarray) -> None:
        arguments = {"index": index.copy(), "priorities": np.where(is_high, 20.0, 1.0)}
        with driver.watched(arguments):
            driver.buffer.update_priorities(**arguments)

    def sample(situation: str, marked: int, num_new: int = 0) -> None:
        rows = driver.rows(28 if num_new else 12)
        rounds.append(Round(situation, rows, marked, len(rows.episodes) - num_new))

    before = driver.rows(20)
    index = before.columns["index"]
    update(index, before.step == 0)
    sample("after priorities are set", marked=0)
    driver.reload()
    sample("after loading", marked=0)
    driver.add_episodes([4] * 10)
    sample("after adding episodes", marked=0, num_new=10)
    now = rounds[-1].rows
    update(index, before.step == 3)
    update(now.columns["index"], now.step == 3)
    is_gone = ~now.may_be_sampled[before.here] & ~np.isin(index, now.columns["index"])
    if is_gone.any():
        update(index[is_gone], before.step[is_gone] != 3)
    sample("after priorities are set again", marked=3)
    return Result([before, *(each.rows for each in rounds)], rounds)


@scenario(80, "", "seed")
def seeds(make: Make) -> Result:
    """Sample from three buffers with the same episodes: two with the same seed, one with another seed."""
    batches: list[Batches] = []
    for number, offset in enumerate((0, 0, 1)):
        driver = make(buffer_size=CAPACITY, seed_offset=offset).add_episodes([6] * 6)
        np.random.random(number)  # noqa: NPY002 - gives the global generator another state
        batches.append([*driver.batches(2), *driver.add_episodes([6] * 6).batches(2)])
    return Result([], batches)


@scenario(81, "")
def global_generators(make: Make) -> Result:
    """Use a buffer; the facts are {name of a global generator that was used: whether it was seeded}."""

    def use_buffer() -> None:
        driver = make(buffer_size=CAPACITY).add_episodes([4] * 8)
        driver.batches(2, 32)
        driver.add_episodes([4] * 4).batches(2, 32)

    changed: set[str] = set()  # in several runs, since seeding can restore the state before
    seeded = seeded_generators(lambda: changed.update(used_generators(use_buffer)), before=lambda: None)
    return Result([], {name: name in seeded for name in sorted(changed)})
