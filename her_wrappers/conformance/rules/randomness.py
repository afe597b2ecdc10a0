"""Rules HB601 to HB606 on seeds, global random generators, and saved buffers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.conformance.registry import replay_rule
from her_wrappers.conformance.rows import Batches
from her_wrappers.conformance.scenarios import SavedAndLoaded
from her_wrappers.rules import Violation


def _difference(first: Batches, second: Batches) -> str:
    """Return the first key, except ``index``, whose values differ in two lists of batches; "" if none."""
    for a, b in zip(first, second, strict=True):
        for key in a:  # loading may change index
            if key != "index" and not np.array_equal(a[key], b[key], equal_nan=True):
                return key
    return ""


@replay_rule(
    "HB601",
    scenario="seeds",
    meaning="Two buffers with the same seed and the same episodes return different batches.",
    fix="use one generator for all random numbers, seeded with seed",
    wrong="self.rng = np.random.default_rng()",
    right="self.rng = np.random.default_rng(seed)",
    source="Henderson et al. 2018, Deep Reinforcement Learning that Matters, arXiv 1709.06560",
)
def seed_not_reproducible(seeds: list[Batches]) -> Iterator[Violation]:
    different = _difference(seeds[0], seeds[1])
    if different:
        yield Violation(f"batches of two buffers with the same seed and episodes differ in {different!r}")


@replay_rule(
    "HB602",
    scenario="seeds",
    meaning="Buffers with different seeds return the same batches.",
    fix="seed the generator of the buffer with the argument seed",
    wrong="self.rng = np.random.default_rng(0)",
    right="self.rng = np.random.default_rng(seed)",
    source="Henderson et al. 2018, arXiv 1709.06560",
)
def seed_ignored(seeds: list[Batches]) -> Iterator[Violation]:
    if not _difference(seeds[0], seeds[2]):
        yield Violation("two buffers with different seeds returned the same batches")


@replay_rule(
    "HB603",
    severity="warning",
    scenario="global generators",
    meaning="The buffer uses a global random generator, which other code uses too.",
    fix="use a private numpy.random.Generator",
    wrong="i = np.random.randint(len(self), size=B)",
    right="i = self.rng.integers(len(self), size=B)",
    source="NumPy, NEP 19: random number generator policy",
)
def global_generator_used(seeded: dict[str, bool]) -> Iterator[Violation]:
    if seeded and not any(seeded.values()):
        yield Violation(f"the buffer used the global generator of {', '.join(seeded)}")


@replay_rule(
    "HB604",
    scenario="global generators",
    meaning="The buffer seeds a global random generator, so the random numbers of other code repeat.",
    fix="use a private numpy.random.Generator",
    wrong="np.random.seed(seed)",
    right="self.rng = np.random.default_rng(seed)",
    source="NumPy, NEP 19: random number generator policy",
)
def global_generator_seeded(seeded: dict[str, bool]) -> Iterator[Violation]:
    names = [name for name, is_seeded in seeded.items() if is_seeded]
    if names:
        yield Violation(f"the buffer seeded the global generator of {', '.join(names)}")


@replay_rule(
    "HB605",
    scenario="saved and loaded",
    reports_exceptions=True,
    meaning="Saving or loading raises an exception, or the loaded buffer has different transitions.",
    fix="save transitions, goals and the bounds of episodes",
    wrong="np.savez(path, obs=self.obs, action=self.actions)",
    right="np.savez(path, obs=self.obs, action=self.actions, episode_start=self.starts, ...)",
    source="stable-baselines3, save_replay_buffer",
    implies=("HB205", "HB606"),
)
def save_and_load(saved: SavedAndLoaded) -> Iterator[Violation]:
    yield from saved.rows.first_violation()
    steps = sum(each.length for each in saved.rows.env.episodes)
    found = len(np.unique(saved.rows.transition))
    if found < 0.9 * steps:
        yield Violation(
            f"{len(saved.rows)} rows of the loaded buffer contain only {found} of the {steps} transitions"
        )


@replay_rule(
    "HB606",
    scenario="saved and loaded",
    offers=("save generator",),
    meaning="A loaded buffer does not continue with the random sequence of the saved one.",
    fix="save the state of the generator",
    wrong="state = {'episodes': self.episodes}",
    right="state = {'episodes': self.episodes, 'rng': self.rng.bit_generator.state}",
    source="Henderson et al. 2018, arXiv 1709.06560",
)
def loaded_sequence(saved: SavedAndLoaded) -> Iterator[Violation]:
    different = _difference(saved.before, saved.after)
    if different:
        yield Violation(f"the next batches of the saved and the loaded buffer differ in {different!r}")
