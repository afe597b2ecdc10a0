"""GE4xx: a seed fixes everything that follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.replicas import Divergence


@rule(
    "GE401",
    "not-reproducible",
    "error",
    meaning="The same seed and actions lead to another goal, another start, or other steps.",
    fix="draw from self.np_random only, call super().reset(seed=seed), and let reset() restore everything",
    implies=("GE112",),
    wrong="self.goal = np.random.uniform(-1, 1, 2)",
    right="self.goal = self.np_random.uniform(-1, 1, 2)",
)
def not_reproducible(evidence: Evidence) -> Iterator[Violation]:
    """Two environments, or two resets of one, agree under one seed."""
    if evidence.divergence is not None:
        yield _violation(evidence.divergence, "a second environment with the same seed and actions")
    elif evidence.reset_divergence is not None:
        yield _violation(evidence.reset_divergence, "a second reset with the same seed")


def _violation(found: Divergence, other: str) -> Violation:
    if not found.at_reset:
        subject, hint = "dynamics", "a step draws from a generator that the seed does not set"
    elif found.part.startswith("desired_goal"):
        subject, hint = "goal", "the goal is drawn from a generator that the seed does not set, or seeds anew"
    else:
        subject, hint = "reset", "the start is random beyond the seed, or something survives reset()"
    return Violation(
        f"{show(found.there)} in {other}", f"{found.part} {show(found.here)}", found.place, subject, hint
    )
