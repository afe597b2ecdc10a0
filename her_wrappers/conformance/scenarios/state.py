"""Scenarios of seeds, global random generators, shared memory and saved buffers."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from her_wrappers.checker.global_generators import (
    get_global_states,
    seed_global_generators,
    set_global_states,
)
from her_wrappers.conformance.rows import DecodedRows
from her_wrappers.conformance.scenarios.driver import (
    AdapterClass,
    Batches,
    BufferDriver,
    changed_keys,
    is_same,
    scenario,
)


@dataclass
class SeededBatches:
    """Batches of two buffers with the same seed, and of a third buffer with another seed."""

    first: Batches
    same: Batches
    other: Batches


@scenario
def seeds(adapter: AdapterClass, seed: int) -> SeededBatches:
    """Three buffers with the same episodes."""
    batches = []
    for number, buffer_seed in enumerate((seed, seed, seed + 1)):
        driver = BufferDriver(adapter, buffer_seed)
        driver.add_episodes([6] * 20)
        np.random.random(number)  # noqa: NPY002 - gives the global generator another state
        batches.append(driver.batches(2))
    return SeededBatches(*batches)


@dataclass
class GlobalGeneratorUse:
    """Names of the global random generators that a buffer changes, and of the generators that it seeds."""

    changed: list[str]
    seeded: list[str]


@scenario
def global_generators(adapter: AdapterClass, seed: int) -> GlobalGeneratorUse:
    """Twice, the global generators are seeded with a new seed and a new buffer is used."""
    outer = get_global_states()
    after: list[dict[str, Any]] = []
    changed: set[str] = set()
    try:
        for global_seed in (1, 2):
            seed_global_generators(global_seed)
            before = get_global_states()
            driver = BufferDriver(adapter, seed)
            driver.add_episodes([4] * 4)
            driver.batches(2, 32)
            after.append(get_global_states())
            changed |= {name for name in before if before[name] != after[-1][name]}
    finally:
        set_global_states(outer)
    names = sorted(changed)
    return GlobalGeneratorUse(names, [name for name in names if after[0][name] == after[1][name]])


@dataclass
class MemoryChanges:
    """Changed arguments and batches, and rows that are wrong if buffer and caller share memory.

    Attributes:
        arguments_changed: Arguments that `add` changed, such as ``action`` or ``obs['desired_goal']``.
        stored_changed: Rows sampled after the caller changed the arrays that were added.
        batch_changed: Keys of a batch that changed when later batches were sampled.
        storage_changed: Rows sampled after the caller changed batches.
    """

    arguments_changed: list[str]
    stored_changed: DecodedRows
    batch_changed: list[str]
    storage_changed: DecodedRows


@scenario
def memory(adapter: AdapterClass, seed: int) -> MemoryChanges:
    """Arrays are overwritten after they were added, and after they were sampled."""
    driver = BufferDriver(adapter, seed)
    changed: set[str] = set()
    for _ in range(20):
        episode = driver.env.new_episode()
        for transition in driver.env.transitions(episode, 6):
            before = copy.deepcopy(transition)
            driver.buffer.add(*transition)
            for name, new, old in (
                ("obs", transition.obs, before.obs),
                ("next_obs", transition.next_obs, before.next_obs),
            ):
                changed |= {f"{name}[{key!r}]" for key in old if not is_same(new[key], old[key])}
                for array in new.values():
                    array[...] = 77
            changed |= set() if is_same(transition.action, before.action) else {"action"}
            transition.action[...] = 77
    first = driver.buffer.sample(128)
    copies = driver.read(first, 128)
    stored = driver.rows(4)
    batch_changed = changed_keys(first, copies)
    for key in copies:
        with contextlib.suppress(ValueError, TypeError):  # read-only arrays cannot be changed
            first[key][...] = 55
    for _ in range(3):
        batch = driver.buffer.sample(128)
        for key in copies:
            with contextlib.suppress(ValueError, TypeError):
                batch[key][...] = 55
    return MemoryChanges(sorted(changed), stored, batch_changed, driver.rows(4))


@dataclass
class SavedAndLoaded:
    """Rows of a loaded buffer, and the next batches of the saved and of the loaded buffer.

    Attributes:
        rows: Rows of the loaded buffer.
        before: Batches that the saved buffer returns after it was saved.
        after: The same number of batches of the loaded buffer.
    """

    rows: DecodedRows
    before: Batches
    after: Batches


@scenario
def saved_and_loaded(adapter: AdapterClass, seed: int) -> SavedAndLoaded:
    """A buffer is saved, and loaded into another buffer."""
    driver = BufferDriver(adapter, seed)
    driver.add_episodes([5, 6, 7] * 6)
    driver.batches(1)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "buffer")
        driver.buffer.save(path)
        other = BufferDriver(adapter, seed + 1, env=driver.env)
        other.buffer.load(path)
    before, after = driver.batches(2), other.batches(2)
    return SavedAndLoaded(other.decode(after + other.batches(6)), before, after)
