"""Rules HB601 to HB608: random generators and memory of the buffer are its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.conformance.registry import replay_rule
from her_wrappers.conformance.rows import Batches
from her_wrappers.conformance.scenarios import EQUAL_EPISODES, Result
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
    "HB601", ("seeds",), fix="use one generator for all random numbers, seeded with seed", source=REPRODUCIBLE
)
def seed_not_reproducible(result: Result) -> Iterator[Violation]:
    """Buffers with the same seed return different batches, or buffers with different seeds the same."""
    first, same, other = result.facts
    if different := _difference(first, same):
        yield Violation(f"batches of two buffers with the same seed and episodes differ in {different!r}")
    elif not _difference(first, other):
        yield Violation("two buffers with different seeds returned the same batches")


@replay_rule(
    "HB603",
    ("global generators",),
    severity="warning",
    fix="use a private numpy.random.Generator",
    source="NumPy, NEP 19: random number generator policy",
)
def global_generator_used(result: Result) -> Iterator[Violation]:
    """The buffer uses a global random generator, or seeds it, so that other code gets the same numbers."""
    if seeded := [name for name, is_seeded in result.facts.items() if is_seeded]:
        yield Violation(f"the buffer seeded the global generator of {', '.join(seeded)}", severity="error")
    elif result.facts:
        yield Violation(f"the buffer used the global generator of {', '.join(result.facts)}")


@replay_rule(
    "HB606",
    ("saved and loaded",),
    offers=("save generator",),
    fix="save the state of the generator",
    source=REPRODUCIBLE,
)
def loaded_sequence(result: Result) -> Iterator[Violation]:
    """A loaded buffer does not continue with the random sequence of the saved one."""
    if result.is_clean and (different := _difference(*result.facts)):
        yield Violation(f"the next batches of the saved and the loaded buffer differ in {different!r}")


@replay_rule(
    "HB607",
    ("changed arguments", "set priorities"),
    fix="copy arguments before changing their shape or dtype",
    source="stable-baselines3 DictReplayBuffer.add reshapes Discrete entries of the caller's dict",
)
def arguments_changed(result: Result) -> Iterator[Violation]:
    """Adding transitions or updating priorities changes an argument of the caller."""
    if names := set().union(*(driver.changed_arguments for driver in result.drivers)):
        yield Violation(f"the buffer changed the argument {', '.join(sorted(names))}")


@replay_rule(
    "HB608",
    (EQUAL_EPISODES, "full buffer", "set priorities"),
    fix="return new arrays from each call of sample, also for one row",
    source="cpprb 11.0.0: index and weights of a batch are views of memory that the next batch overwrites",
)
def batch_overwritten(result: Result) -> Iterator[Violation]:
    """A batch changes when the next batch is sampled, or when transitions are added."""
    if names := set().union(*(driver.changed_batches for driver in result.drivers)):
        yield Violation(f"{', '.join(sorted(names))} of a batch changed in later calls of add() or sample()")
