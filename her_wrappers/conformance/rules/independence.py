"""Rules HB601 to HB608: random generators and memory of the buffer are its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from her_wrappers.conformance.registry import replay_rule
from her_wrappers.conformance.results import ScenarioResults
from her_wrappers.conformance.rows import Batches
from her_wrappers.conformance.scenarios import MemoryChanges, Result
from her_wrappers.rules import Violation

REPRODUCIBLE = "Henderson et al. 2018, Deep Reinforcement Learning that Matters, arXiv 1709.06560"


def _difference(first: Batches, second: Batches) -> str:
    """Return the first key, except ``index``, whose values differ in two lists of batches; "" if none."""
    for a, b in zip(first, second, strict=True):
        for key in a:  # loading may change index
            if key != "index" and not np.array_equal(a[key], b[key], equal_nan=True):
                return key
    return ""


@replay_rule(
    "HB601",
    scenarios=("seeds",),
    meaning="Two buffers with the same seed and the same episodes return different batches.",
    fix="use one generator for all random numbers, seeded with seed",
    source=REPRODUCIBLE,
)
def seed_not_reproducible(result: Result) -> Iterator[Violation]:
    different = _difference(result.facts[0], result.facts[1])
    if different:
        yield Violation(f"batches of two buffers with the same seed and episodes differ in {different!r}")


@replay_rule(
    "HB602",
    scenarios=("seeds",),
    meaning="Buffers with different seeds return the same batches.",
    fix="seed the generator of the buffer with the argument seed",
    source=REPRODUCIBLE,
)
def seed_ignored(result: Result) -> Iterator[Violation]:
    if not _difference(result.facts[0], result.facts[2]):
        yield Violation("two buffers with different seeds returned the same batches")


def _global_rule(code: str, name: str, is_seeded: bool, verb: str, **texts: Any) -> None:
    """Register a rule on the generators that the buffer only uses, or that it seeds."""

    def check(result: Result) -> Iterator[Violation]:
        names = [name for name, seeded in result.facts.items() if seeded or not is_seeded]
        if names and (is_seeded or not any(result.facts.values())):
            yield Violation(f"the buffer {verb} the global generator of {', '.join(names)}")

    replay_rule(
        code,
        name,
        scenarios=("global generators",),
        fix="use a private numpy.random.Generator",
        source="NumPy, NEP 19: random number generator policy",
        **texts,
    )(check)


_global_rule(
    "HB603",
    "global-generator-used",
    False,
    "used",
    severity="warning",
    meaning="The buffer uses a global random generator, which other code uses too.",
)
_global_rule(
    "HB604",
    "global-generator-seeded",
    True,
    "seeded",
    meaning="The buffer seeds a global random generator, so the random numbers of other code repeat.",
)


@replay_rule(
    "HB606",
    scenarios=("saved and loaded",),
    on_results=True,
    offers=("save generator",),
    meaning="A loaded buffer does not continue with the random sequence of the saved one.",
    fix="save the state of the generator",
    source=REPRODUCIBLE,
)
def loaded_sequence(results: ScenarioResults) -> Iterator[Violation]:
    result = results.of("saved and loaded")
    if result and not any(name == "saved and loaded" for _, name in results.faults):
        different = _difference(*result.facts)
        if different:
            yield Violation(f"the next batches of the saved and the loaded buffer differ in {different!r}")


MEMORY = ("changed arguments", "changed batches", "set priorities")


def _memory_changes(results: ScenarioResults) -> Iterator[MemoryChanges]:
    for name in MEMORY:
        if (result := results.of(name)) is not None:
            yield getattr(result.facts, "changes", result.facts)


@replay_rule(
    "HB607",
    scenarios=MEMORY,
    on_results=True,
    meaning="add or update_priorities changes an argument of the caller.",
    fix="copy arguments before changing their shape or dtype",
    source="stable-baselines3 DictReplayBuffer.add reshapes Discrete entries of the caller's dict",
)
def arguments_changed(results: ScenarioResults) -> Iterator[Violation]:
    for changes in _memory_changes(results):
        if changes.arguments:
            yield Violation(f"the buffer changed the argument {', '.join(changes.arguments)}")


@replay_rule(
    "HB608",
    scenarios=MEMORY,
    on_results=True,
    meaning="A batch changes when the next batch is sampled, or when transitions are added.",
    fix="return new arrays from each call of sample, also for one row",
    source="cpprb 11.0.0: index and weights of a batch are views of memory that the next batch overwrites",
)
def batch_overwritten(results: ScenarioResults) -> Iterator[Violation]:
    for changes in _memory_changes(results):
        if changes.batches:
            changed = ", ".join(map(repr, changes.batches))
            yield Violation(f"{changed} of a batch changed in later calls of add() or sample()")
