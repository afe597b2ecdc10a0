"""GE4xx: a seed fixes everything that follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.replicas import Divergence


SURVIVES = "something survives reset(): a velocity, a counter, or a generator of its own"


@rule(
    "GE401",
    "not-reproducible",
    "error",
    meaning="The same seed and actions lead to another goal, another start, or other steps.",
    fix="draw from self.np_random only, call super().reset(seed=seed), and let reset() restore everything",
    implies=("GE112", "GE402", "GE403", "GE404"),
    wrong="self.goal = np.random.uniform(-1, 1, 2)",
    right="self.goal = self.np_random.uniform(-1, 1, 2)",
)
def not_reproducible(evidence: Evidence) -> Iterator[Violation]:
    """Two environments, or two resets of one, agree under one seed."""
    if evidence.divergence is not None:
        yield _violation(evidence.divergence, "a second environment with the same seed and actions")
    elif evidence.reset_divergence is not None:
        yield _violation(evidence.reset_divergence, "a second reset with the same seed")


@rule(
    "GE402",
    "state-survives-reset",
    "error",
    meaning="After a reset with a seed, an environment that was used before differs from a new one.",
    fix="let reset() restore everything that step() changes, generators included",
    needs=("replica",),
    wrong="""
def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.position = self._draw_start()  # and self.velocity stays as it was""",
    right="""
def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.position, self.velocity = self._draw_start(), np.zeros(2)""",
)
def state_survives_reset(evidence: Evidence) -> Iterator[Violation]:
    """A reset with a seed makes a used environment like a new one."""
    if evidence.rerun_divergence is not None:
        yield _violation(evidence.rerun_divergence, "an environment that was used before", SURVIVES)


@rule(
    "GE403",
    "options-ignore-seed",
    "error",
    meaning="reset(seed=..., options=...) with one seed and the same options starts differently each time.",
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
    """Options do not switch off the seed."""
    found = evidence.options_divergence
    if found is not None:
        yield _violation(found, "a second reset with the same seed and options", "the options skip the seed")


@rule(
    "GE404",
    "global-generator-seeded",
    "error",
    meaning="The environment seeds a global random generator, so that random numbers of other code repeat.",
    fix="draw from self.np_random, or from a generator of your own: numpy.random.default_rng(seed)",
    needs=("replica",),
    wrong="""
np.random.seed(0)
noise = np.random.normal(size=2)""",
    right="noise = self.np_random.normal(size=2)",
)
def global_generator_seeded(evidence: Evidence) -> Iterator[Violation]:
    """Exploration and replay draw from generators that environments leave alone."""
    for call in evidence.seeded_by:
        yield Violation(call, "global generators left alone", subject=call.partition(" ")[0])


def _violation(found: Divergence, other: str, cause: str = "") -> Violation:
    if not found.at_reset:
        subject, hint = "dynamics", "a step draws from a generator that the seed does not set"
    elif found.part.startswith("desired_goal"):
        subject, hint = "goal", "the goal is drawn from a generator that the seed does not set, or sets again"
    else:
        subject, hint = "reset", "the start is random beyond the seed, or something survives reset()"
    return Violation(
        f"{show(found.there)} in {other}",
        f"{found.part} {show(found.here)}",
        found.place,
        subject,
        cause or hint,
    )
