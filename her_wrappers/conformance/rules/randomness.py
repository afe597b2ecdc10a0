"""HB601 to HB606: seeds, global random generators, and saved buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Violation
from her_wrappers.conformance.registry import (
    failures_of,
    first_wrong_row_by_aspect,
    replay_rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.conformance.results import ScenarioResults
    from her_wrappers.conformance.scenarios.driver import Batches


def _difference(first: Batches, second: Batches) -> str:
    """Return the first key in which batches differ, or an empty text."""
    for a, b in zip(first, second, strict=True):
        for key in a:
            if not np.array_equal(a[key], b[key], equal_nan=True):
                return key
    return ""


@replay_rule(
    "HB601",
    "seed-not-reproducible",
    meaning="Two buffers with the same seed and the same episodes return different batches.",
    fix="use one generator for all random numbers, seeded with seed",
    wrong="self.rng = np.random.default_rng()",
    right="self.rng = np.random.default_rng(seed)",
    source="Henderson et al. 2018, Deep Reinforcement Learning that Matters, arXiv 1709.06560",
    offers=("seed",),
)
def seed_not_reproducible(results: ScenarioResults) -> Iterator[Violation]:
    """The same seed gives the same batches."""
    result = results.of("seeds")
    different = result and _difference(result.first, result.same)
    if different:
        yield Violation(f"different {different}", "the same batches for the same seed")


@replay_rule(
    "HB602",
    "seed-ignored",
    meaning="Buffers with different seeds return the same batches.",
    fix="use the argument seed",
    wrong="self.rng = np.random.default_rng(0)",
    right="self.rng = np.random.default_rng(seed)",
    source="Henderson et al. 2018, arXiv 1709.06560",
    offers=("seed",),
)
def seed_ignored(results: ScenarioResults) -> Iterator[Violation]:
    """Different seeds give different batches."""
    result = results.of("seeds")
    if result is not None and not _difference(result.first, result.other):
        yield Violation("equal batches", "different batches for different seeds")


@replay_rule(
    "HB603",
    "global-generator-used",
    "warning",
    meaning="The buffer uses a global random generator, which other code uses too.",
    fix="use a private numpy.random.Generator",
    wrong="i = np.random.randint(len(self), size=B)",
    right="i = self.rng.integers(len(self), size=B)",
    source="NumPy, NEP 19: random number generator policy",
)
def global_generator_used(results: ScenarioResults) -> Iterator[Violation]:
    """Global generators do not change."""
    result = results.of("global generators")
    if result is not None and result.changed and not result.seeded:
        yield Violation(f"{', '.join(result.changed)} changed", "unchanged global generators")


@replay_rule(
    "HB604",
    "global-generator-seeded",
    meaning="The buffer seeds a global random generator, so the random numbers of other code repeat.",
    fix="use a private numpy.random.Generator",
    wrong="np.random.seed(seed)",
    right="self.rng = np.random.default_rng(seed)",
    source="NumPy, NEP 19: random number generator policy",
)
def buffer_seeds_global_generator(results: ScenarioResults) -> Iterator[Violation]:
    """Global generators are never seeded."""
    result = results.of("global generators")
    if result is not None and result.seeded:
        yield Violation(f"{', '.join(result.seeded)} seeded", "unchanged global generators")


@replay_rule(
    "HB605",
    "save-and-load",
    meaning="Saving or loading raises, or the loaded buffer has different transitions.",
    fix="save transitions, goals and the bounds of episodes",
    wrong="np.savez(path, obs=self.obs, action=self.actions)",
    right="np.savez(path, obs=self.obs, action=self.actions, episode_start=self.starts, ...)",
    source="stable-baselines3, save_replay_buffer",
    offers=("save",),
    implies=("HB606",),
    scenario="saved and loaded",
)
def save_and_load(results: ScenarioResults) -> Iterator[Violation]:
    """A loaded buffer has the transitions that were added."""
    yield from failures_of(results, "saved and loaded")
    result = results.of("saved and loaded")
    if result is None:
        return
    yield from first_wrong_row_by_aspect(results, result.rows)
    steps = sum(episode.length for episode in result.rows.env.episodes)
    found = len(np.unique(result.rows.episode * 64 + result.rows.step))
    if found < 0.9 * steps:
        yield Violation(f"{found} transitions in {len(result.rows)} rows", f"all {steps} transitions")


@replay_rule(
    "HB606",
    "loaded-sequence",
    meaning="A loaded buffer does not continue with the random sequence of the saved one.",
    fix="save the state of the generator",
    wrong="state = {'episodes': self.episodes}",
    right="state = {'episodes': self.episodes, 'rng': self.rng.bit_generator.state}",
    source="Henderson et al. 2018, arXiv 1709.06560",
    offers=("save generator",),
)
def loaded_sequence(results: ScenarioResults) -> Iterator[Violation]:
    """The next batches of the saved and the loaded buffer are equal."""
    result = results.of("saved and loaded")
    different = result and _difference(result.before, result.after)
    if different:
        yield Violation(f"different {different}", "the same next batches")
