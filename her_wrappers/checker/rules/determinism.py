"""GE4xx: the seed determines all later values, and environments do not seed global generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.replicas import Divergence


SURVIVES = "reset() does not restore some state, such as a velocity, a counter or a generator"


@rule(
    "GE401",
    "not-reproducible",
    "error",
    meaning="The same seed and actions lead to a different goal, start or step.",
    fix="draw from self.np_random only, call super().reset(seed=seed), and restore everything in reset()",
    implies=("GE112", "GE402", "GE403", "GE404"),
    wrong="self.goal = np.random.uniform(-1, 1, 2)",
    right="self.goal = self.np_random.uniform(-1, 1, 2)",
)
def not_reproducible(evidence: Evidence) -> Iterator[Violation]:
    """Two environments with the same seed and actions return the same values, and so do two resets."""
    if evidence.divergence is not None:
        yield _violation(evidence.divergence, "a second environment with the same seed and actions")
    elif evidence.reset_divergence is not None:
        yield _violation(evidence.reset_divergence, "a second reset with the same seed")


@rule(
    "GE402",
    "state-survives-reset",
    "error",
    meaning="After a reset with a seed, an environment that was used before behaves unlike a new one.",
    fix="restore in reset() everything that step() changes, including random generators",
    needs=("replica",),
    wrong="""
def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.position = self._draw_start()  # self.velocity keeps its value""",
    right="""
def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.position, self.velocity = self._draw_start(), np.zeros(2)""",
)
def state_survives_reset(evidence: Evidence) -> Iterator[Violation]:
    """After a reset with a seed, a used environment behaves like a new one."""
    if evidence.rerun_divergence is not None:
        yield _violation(evidence.rerun_divergence, "an environment that was used before", SURVIVES)


@rule(
    "GE403",
    "options-ignore-seed",
    "error",
    meaning="Two calls of reset with the same seed and options return different observations.",
    fix="call super().reset(seed=seed) with and without options, and draw from self.np_random only",
    needs=("replica",),
    wrong="""
if options is not None:
    return self._reset_to(options)  # without super().reset(seed=seed)""",
    right="""
super().reset(seed=seed)
if options is not None:
    return self._reset_to(options)""",
)
def options_ignore_seed(evidence: Evidence) -> Iterator[Violation]:
    """The seed determines a reset with options as it determines a reset without them."""
    found = evidence.options_divergence
    if found is not None:
        yield _violation(
            found,
            "a second reset with the same seed and options",
            "the seed does not determine the reset with these options",
        )


@rule(
    "GE404",
    "global-generator-seeded",
    "error",
    meaning="The environment seeds a global random generator, so random numbers of other code repeat.",
    fix="draw from self.np_random, or from a separate generator: numpy.random.default_rng(seed)",
    needs=("replica",),
    wrong="""
np.random.seed(0)
noise = np.random.normal(size=2)""",
    right="noise = self.np_random.normal(size=2)",
)
def global_generator_seeded(evidence: Evidence) -> Iterator[Violation]:
    """Environments do not seed the generators that exploration and replay may draw from."""
    for call, generator in evidence.global_seeding:
        yield Violation(f"a seed of {generator}", "no seed of a global generator", subject=call)


def _violation(found: Divergence, other: str, cause: str = "") -> Violation:
    if not found.at_reset:
        subject, hint = "dynamics", "step() draws from a generator that the seed does not set"
    elif found.path.startswith("desired_goal"):
        subject, hint = "goal", "the goal is drawn from a generator that the seed does not set"
    else:
        subject, hint = (
            "reset",
            "reset() draws from a generator that the seed does not set, or keeps state of the last episode",
        )
    return Violation(
        f"{show(found.repeated)} in {other}",
        f"{found.path} {show(found.original)}",
        found.place,
        subject,
        cause or hint,
    )
